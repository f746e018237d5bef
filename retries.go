package fiber

import (
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

const (
	// firstPause and longestPause are the pauses of Retries without a Backoff.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// Retries has a task that fails run again, up to n times: when its function returns an
// error, panics, or runs into Timeout. The task's error is then that of its last
// attempt. By default no task runs again that has failed.
//
// Before the next attempt the task pauses; see Backoff. That attempt is on another
// worker than the one it failed on, if there is one; if all others stay busy, it may be on
// the same one, after as long again as the pause, and a second at least. Other tasks run
// meanwhile.
//
// An argument or a result that cannot travel is not tried again. Losses of workers
// do not count here, but in WithMaxAttempts.
func Retries(n int) CallOption {
	return callOption(func(o *callOptions) error {
		if n < 0 {
			return fmt.Errorf("fiber: Retries(%d): the number must be at least 0", n)
		}
		o.retries, o.retrying = n, true
		return nil
	})
}

// RetryIf restricts Retries to errors for which again returns true. They are those
// that the call would fail with, a *TaskError each. again is called on goroutines of
// Fiber's, for any number of tasks at a time; if it panics, its panic becomes the task's error.
func RetryIf(again func(error) bool) CallOption {
	return callOption(func(o *callOptions) error {
		if again == nil {
			return errors.New("fiber: RetryIf: the function is nil; leave the option out to try again after any error")
		}
		o.retryIf = again
		return nil
	})
}

// Backoff sets how long a task pauses before its second attempt, and at most before
// any other: each pause is twice as long as the one before, less up to half of it at
// random. The default is Backoff(100*time.Millisecond, 30*time.Second).
func Backoff(first, longest time.Duration) CallOption {
	return callOption(func(o *callOptions) error {
		if first < 0 || longest < first {
			return fmt.Errorf("fiber: Backoff(%v, %v): want 0 <= first <= longest", first, longest)
		}
		o.pauses, o.paused = [2]time.Duration{first, longest}, true
		return nil
	})
}

// checkRetries checks what options say about retries together.
func (o *callOptions) checkRetries() error {
	switch {
	case !o.retrying && o.retryIf != nil:
		return errors.New("fiber: RetryIf without Retries: no task runs again; say how often with Retries")
	case !o.retrying && o.paused:
		return errors.New("fiber: Backoff without Retries: no task runs again; say how often with Retries")
	}
	return nil
}

// retry has the engine run tasks again as the options say.
func (o *callOptions) retry() {
	if o.retries == 0 {
		return
	}
	if !o.paused {
		o.pauses = [2]time.Duration{firstPause, longestPause}
	}
	fn, single, retryIf := o.Func, o.Single, o.retryIf
	o.Retry = &engine.Retry{Times: o.retries, First: o.pauses[0], Longest: o.pauses[1], If: func(f *engine.Failure) (again bool) {
		err := fromEngine(f.Err)
		if encode := (*EncodeError)(nil); errors.As(err, &encode) {
			return false
		}
		if retryIf == nil {
			return true
		}
		if failed := guard.Call(func() error {
			again = retryIf(taskError(fn, f.Index, f.Attempt, single, err))
			return nil
		}); failed != nil {
			f.Err, again = errorf("fiber: RetryIf: %w", failed), false
		}
		return again
	}}
}
