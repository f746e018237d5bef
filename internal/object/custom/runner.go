package custom

import (
	"container/list"
	"context"
	"sync"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/wire"
)

// runner runs the user's code for the requests to an object: one call after
// another, in the order in which the requests came, or all at the same time.
type runner struct {
	service    *Service
	concurrent bool
	ended      func() // called once the object is dropped and no call runs

	mu      sync.Mutex
	calls   map[*object.Request]*call // waiting and running
	waiting list.List                 // of *call, in their order
	running sync.WaitGroup
	dropped bool
}

// call is a call of the user's code.
type call struct {
	r      *object.Request
	do     func(ctx context.Context) error
	answer func(err error) // answers r with the outcome of do

	waits  *list.Element // nil once it runs
	ctx    context.Context
	cancel context.CancelFunc
}

func newRunner(s *Service, concurrent bool, ended func()) *runner {
	return &runner{service: s, concurrent: concurrent, ended: ended, calls: map[*object.Request]*call{}}
}

// begin runs a call, now or later.
func (u *runner) begin(c *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dropped {
		c.r.Fail(object.Gone, "")
		return
	}
	wait := len(u.calls) > 0 && !u.concurrent
	u.calls[c.r] = c
	if wait {
		c.waits = u.waiting.PushBack(c)
		return
	}
	u.start(c, true)
}

// start starts a call whose turn it is. The lock is held.
func (u *runner) start(c *call, atOnce bool) {
	c.ctx, c.cancel = context.WithCancel(u.service.ctx)
	u.running.Add(1)
	c.r.Run(atOnce, func() { u.run(c) })
}

// run runs a call. The user's code may end this goroutine.
func (u *runner) run(c *call) {
	defer u.end(c)
	if c.ctx.Err() != nil { // the manager ends, or the call was given up just now
		c.r.Fail(object.Gone, "")
		return
	}
	guard.Here(func() error { return c.do(c.ctx) }, c.answer)
}

// end starts the next call, on another goroutine.
func (u *runner) end(c *call) {
	c.cancel()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, c.r)
	for u.waiting.Len() > 0 {
		next := u.waiting.Front().Value.(*call)
		if !next.r.Wanted() {
			u.forget(next)
			continue
		}
		u.waiting.Remove(next.waits)
		next.waits = nil
		u.start(next, false)
		break
	}
	u.running.Done()
}

// forget removes a waiting call. The lock is held.
func (u *runner) forget(c *call) {
	u.waiting.Remove(c.waits)
	delete(u.calls, c.r)
}

// fail answers a request with the error of the user's code. If the code has failed
// because the object, or its manager, ends, the answer says that.
func (u *runner) fail(r *object.Request, name string, err error) {
	failure := u.service.opts.Error(name, err)
	u.mu.Lock()
	ends := u.dropped || u.service.ctx.Err() != nil
	u.mu.Unlock()
	if ends && (failure.Canceled || u.service.home.Ended(err)) {
		r.Fail(object.Gone, "")
		return
	}
	r.Fail(Failed, string(wire.MustPack(wire.KindDone, wire.Done{Err: failure})[0]))
}

// Failure decodes the text of a refusal with the code Failed.
func Failure(text string) *wire.Error {
	done := wire.Done{}
	if wire.Unpack([][]byte{[]byte(text)}, &done) != nil || done.Err == nil {
		return &wire.Error{Message: text}
	}
	return done.Err
}

// GiveUp removes a waiting call, and cancels the context of a running one. The
// answer says which, so that the caller knows whether the code has begun.
func (u *runner) GiveUp(r *object.Request) {
	u.mu.Lock()
	c := u.calls[r]
	waits := c != nil && c.waits != nil
	if waits {
		u.forget(c)
	}
	u.mu.Unlock()
	if c == nil || waits {
		r.Fail(object.GivenUp, "")
		return
	}
	r.Fail(object.LetGo, "") // first, before the cancelled code can answer
	c.cancel()
}

// Left does nothing: requests are given up by themselves.
func (u *runner) Left(*object.Session, bool) {}

// Drop refuses the waiting calls and cancels the running ones.
func (u *runner) Drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dropped {
		return
	}
	u.dropped = true
	for r, c := range u.calls {
		if c.waits != nil {
			r.Fail(object.Gone, "")
			u.forget(c)
		}
	}
	for _, c := range u.calls {
		c.cancel()
	}
	go func() {
		u.running.Wait()
		u.ended()
	}()
}
