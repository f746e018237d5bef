// Package guard calls the user's code, and turns its panics, and calls of
// runtime.Goexit (by t.FailNow, say), into errors.
package guard

import (
	"errors"
	"fmt"
)

// ErrGoexit is the error of a function that has ended its goroutine.
var ErrGoexit = errors.New("the function called runtime.Goexit")

// Panic is the error of a function that has panicked.
type Panic struct {
	Value any
	Stack []byte // where: the user's own frames
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the panic's value if that is an error, and nil otherwise.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Call calls f on a goroutine of its own, which is the only one that f can end,
// and waits for it. It returns f's error, a *Panic, or ErrGoexit.
func Call(f func() error) error {
	outcome := make(chan error, 1)
	go Here(f, func(err error) { outcome <- err })
	return <-outcome
}

// Here calls f on this goroutine, and then calls ended with the outcome, as Call
// would return it. After ErrGoexit this goroutine ends when ended returns: ended
// must leave any further work to another goroutine.
func Here(f func() error, ended func(error)) {
	outcome := ErrGoexit
	defer func() { ended(outcome) }()
	outcome = Caught(f)
}

// Caught calls f on this goroutine, and returns its error or a *Panic. Nothing
// keeps f from ending the goroutine.
func Caught(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{value, stack()}
		}
	}()
	return f()
}
