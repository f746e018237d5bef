// Package guard calls the user's code: a panic in it, and a call of
// runtime.Goexit (of t.FailNow, say), become errors.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrGoexit is the outcome of a function that has ended its goroutine.
var ErrGoexit = errors.New("the function called runtime.Goexit")

// Panic is the outcome of a function that has panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap is the error that it panicked with, if it was one.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Call calls f on a goroutine of its own, so that f ends no other one. It
// returns f's error, a *Panic, or ErrGoexit.
func Call(f func() error) error {
	outcome := make(chan error, 1)
	go Here(f, func(err error) { outcome <- err })
	return <-outcome
}

// Here calls f on this goroutine, and then ended with the outcome; see Call.
// After ErrGoexit the goroutine ends when ended has returned: what is still to
// be done, ended leaves to another one.
func Here(f func() error, ended func(error)) {
	outcome := ErrGoexit
	defer func() {
		if value := recover(); value != nil {
			outcome = &Panic{value, debug.Stack()}
		}
		ended(outcome)
	}()
	outcome = f()
}
