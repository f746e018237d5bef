package engine

import "github.com/fiber-go/fiber/internal/self"

// Close refuses new calls, waits for complete calls to finish and for the
// running tasks of open ones, and ends the workers. Tasks of open calls that
// have not begun are given up. When this process is told to end, Close becomes
// Terminate.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closing = true
	for c := range e.calls {
		if c.open {
			e.cut(c)
		}
	}
	if e.wait(e.opts.Ending, func() (bool, error) { return len(e.calls) == 0 || e.ended, nil }) != nil {
		e.Terminate()
		return
	}
	e.end(func(w *worker) { w.proc.Stop() })
}

// Terminate fails all calls with ErrClosed, ends the workers, busy or not, and
// blocks until they have gone.
func (e *Engine) Terminate() {
	e.mu.Lock()
	e.closing = true
	e.fail(e.opts.Closed)
	e.releaseFor(hurried)
	e.end(func(w *worker) { w.proc.Terminate() })
}

// end asks every worker to end, kills those left after the grace, and returns
// when all have gone.
func (e *Engine) end(gently func(*worker)) {
	e.mu.Lock()
	e.ended = true
	if e.timer != nil {
		e.timer.Stop()
	}
	var up []*worker
	for _, w := range e.workers {
		w.ours = true
		w.stop()
		if w.proc != nil {
			up = append(up, w)
		}
	}
	e.releaseFor(hurried)
	for _, w := range up {
		gently(w)
	}
	late := self.AfterFunc(e.opts.ShutdownGrace, func() {
		for _, w := range up {
			w.proc.Kill("its pool is closed")
		}
	})
	defer late.Stop()
	e.running.Wait()
}
