package pid1

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/logmux"
)

// Guard says when the program of an init may run.
type Guard interface {
	// Hold blocks until it may. An error is the end of the init.
	Hold(ctx context.Context) error
	// Lost blocks until it may not any more, which its error explains, or until ctx ends.
	Lost(ctx context.Context) error
	// Ended is called when it has ended, or may not run, with whether a SIGTERM came before.
	Ended(end logmux.End, told bool) error
}

// guarded runs a program while its guard, unless that is nil, lets it. A program that has lost its guard counts as told to end.
func guarded(g Guard, signals <-chan os.Signal, say func(error), run func(lost <-chan struct{}) (logmux.End, bool)) (end logmux.End, told bool) {
	if g == nil {
		return run(nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held := make(chan error, 1)
	go func() { held <- g.Hold(ctx) }()
	err := error(nil)
	for waits := true; waits; {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				told = true
				cancel()
			}
		case err = <-held:
			waits = false
		}
	}
	switch {
	case told:
		end.Code = 128 + int(syscall.SIGTERM)
	case err != nil:
		trySay(say, err)
		end.Code = 1
	default:
		lost, why := make(chan struct{}), error(nil)
		go func() {
			why = g.Lost(ctx)
			close(lost)
		}()
		end, told = run(lost)
		if os.Getpid() == 1 {
			_ = syscall.Kill(-1, syscall.SIGKILL) // what it has left running must not go on beside the next pod's program
		}
		cancel()
		if <-lost; why != nil {
			trySay(say, why)
			return logmux.End{Code: end.Code}, true // the kernel has not killed it for its memory
		}
	}
	if err := g.Ended(end, told); err != nil {
		trySay(say, err)
	}
	return end, told
}

// trySay says an error. It does not wait for long: what the program has printed may be in the way, and be read by nobody.
func trySay(say func(error), err error) {
	said := make(chan struct{})
	go func() {
		say(err)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(outputGrace):
	}
}
