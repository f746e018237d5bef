package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/fiber-go/fiber/internal/self"
)

// Close refuses new calls, waits for complete calls to finish and for the
// running tasks of open ones, and ends the workers. Tasks of open calls that
// have not begun are given up. When this process is told to end, Close becomes
// Terminate.
func (e *Engine) Close() { _, _ = e.Shutdown(context.Background()) }

// ErrEnding is the error of a Shutdown while this process is told to end.
var ErrEnding = errors.New("this process is ending")

// Shutdown is Close until ctx ends. Then it fails the calls that are left, kills the
// workers, and returns the number of tasks that were given up, and why.
func (e *Engine) Shutdown(ctx context.Context) (tasks int, err error) {
	until, cancel := context.WithCancel(e.opts.Ending)
	defer cancel()
	defer self.AfterEnd(ctx, cancel)()
	e.mu.Lock()
	e.closing = true
	for c := range e.calls {
		if c.open {
			e.cut(c)
		}
	}
	if e.wait(until, func() (bool, error) { return len(e.calls) == 0 || e.ended, nil }) == nil {
		e.end(ctx, func(w *worker) { w.proc.Stop() })
	} else if err = ctx.Err(); err != nil {
		e.abort(ctx, (*worker).kill)
	} else {
		err = ErrEnding
		e.Terminate()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.givenUp > 0 { // by somebody else
		err = e.opts.Closed
	}
	return e.givenUp, err
}

// unfinished returns how many tasks calls wait for.
func (e *Engine) unfinished() (n int) {
	for c := range e.calls {
		n += c.waiting() + len(c.paused)
		for _, s := range c.delivering {
			n += s.below(c.limit).len()
		}
		for b := range c.held.all() {
			n += b.left().len()
		}
	}
	for _, x := range e.suspects {
		n += x.len()
	}
	return n
}

// Terminate fails all calls with ErrClosed, ends the workers, busy or not, and
// blocks until they have gone.
func (e *Engine) Terminate() {
	e.abort(context.Background(), func(w *worker) { w.proc.Terminate() })
}

// abort fails all calls, and ends the workers.
func (e *Engine) abort(ctx context.Context, how func(*worker)) {
	e.mu.Lock()
	e.closing = true
	e.givenUp += e.unfinished()
	e.fail(e.opts.Closed)
	e.releaseFor(hurried)
	e.end(ctx, how)
}

func (w *worker) kill() { w.proc.Kill("its pool is closed") }

// end asks every worker to end, kills those left after the grace or when ctx ends,
// and returns when all have gone.
func (e *Engine) end(ctx context.Context, gently func(*worker)) {
	e.mu.Lock()
	e.ended = true
	if e.timer != nil {
		e.timer.Stop()
	}
	var up, young []*worker
	for _, w := range e.workers {
		w.ours = true
		w.changed()
		w.stop()
		switch {
		case w.proc == nil: // run sees to it if it comes up all the same
		case w.state == starting:
			young = append(young, w)
		default:
			up = append(up, w)
		}
	}
	e.releaseFor(hurried)
	for _, w := range young {
		w.proc.Terminate() // the context of what it does before its first task is to end
	}
	for _, w := range up {
		gently(w)
	}
	kill := func() {
		e.mu.Lock()
		e.over = true
		left := slices.DeleteFunc(slices.Clone(e.workers), func(w *worker) bool { return w.proc == nil })
		e.mu.Unlock()
		for _, w := range left {
			w.kill()
		}
	}
	late := self.AfterFunc(e.opts.ShutdownGrace, kill)
	defer late.Stop()
	defer self.AfterEnd(ctx, kill)()
	e.running.Wait()
}
