package custom

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// instance is an object of a user's type.
type instance struct {
	service *Service
	typ     *Type
	name    string
	object  any

	mu      sync.Mutex
	calls   map[*object.Request]*call // waiting and running
	waiting []*call                   // in the order in which they came
	over    int                       // how many of them were given up
	running int
	dropped bool
	closed  bool
}

// call is a call of a method.
type call struct {
	r       object.Asked[object.Frames]
	method  *Method
	in      Argument
	ctx     context.Context
	cancel  context.CancelFunc
	running bool
	over    bool // given up before it began
}

var instanceTable = object.Ops(object.On(Call, (*instance).call))

// Serve takes a call.
func (o *instance) Serve(r *object.Request) { instanceTable.Serve(o, r) }

func (o *instance) call(r object.Asked[object.Frames], in Argument) {
	m, ok := registry.Find(registry.Method, in.Name).(*Method)
	switch {
	case !ok:
		r.Fail(object.Unknown, fmt.Sprintf("method %s is not registered in the manager's process", in.Name))
		return
	case m.Recv != o.typ.Recv:
		r.Fail(object.Unknown, fmt.Sprintf("method %s belongs to %s, but the object, a %s, is a %s", in.Name, m.Recv, o.name, o.typ.Recv))
		return
	}
	c := &call{r: r, method: m, in: in}
	c.ctx, c.cancel = context.WithCancel(o.service.ctx)
	switch o.enter(c) {
	case enterRun:
		r.Run(m.brief.Load(), func() { o.run(c) })
	case enterGone:
		c.cancel()
		r.Fail(object.Gone, "")
	}
}

// What becomes of a new call.
const (
	enterWait = iota
	enterRun
	enterGone
)

func (o *instance) enter(c *call) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		return enterGone
	}
	if o.calls == nil {
		o.calls = map[*object.Request]*call{}
	}
	o.calls[c.r.Request] = c
	if o.running > 0 && !o.typ.Concurrent {
		o.waiting = append(o.waiting, c)
		return enterWait
	}
	o.begin(c)
	return enterRun
}

// begin marks a call as running. The lock is held.
func (o *instance) begin(c *call) {
	c.running = true
	o.running++
}

// run runs a call, and then the calls that came meanwhile, one after another.
func (o *instance) run(c *call) {
	for c != nil {
		c = o.one(c)
	}
}

// one runs a call and returns the next to run. If the method ends this goroutine,
// another goroutine runs the next.
func (o *instance) one(c *call) (next *call) {
	if c.ctx.Err() != nil { // the manager ends, or the call was given up just now
		c.r.Fail(object.Gone, "")
		c.cancel()
		return o.next(c)
	}
	var out [][]byte
	var named any
	guard.Here(func() (err error) {
		begun := time.Now()
		defer func() { c.method.brief.Store(time.Since(begun) < brief) }()
		out, named, err = c.method.Call(c.ctx, o.object, c.in.Value)
		return err
	}, func(err error) {
		o.answer(c, out, named, err)
		c.cancel()
		next = o.next(c)
		if err == guard.ErrGoexit {
			go o.run(next)
		}
	})
	return next
}

// answer answers a call with its outcome.
func (o *instance) answer(c *call, out [][]byte, named any, err error) {
	var failure *wire.Error
	if err != nil {
		failure = o.service.opts.Error(c.in.Name, err)
	} else if err := o.service.opts.Fits(out); err != nil {
		failure = o.service.opts.Error(c.in.Name, fmt.Errorf("the result: %w", err))
	}
	switch {
	case failure == nil:
		if named != nil {
			c.r.Until(func() { runtime.KeepAlive(named) })
		}
		// The object may change what its method has returned.
		c.r.Reply(object.Value{Frames: out}.Private().Frames)
	case failure.Canceled && o.ends():
		c.r.Fail(object.Gone, "")
	default:
		fail(c.r.Request, failure)
	}
}

// ends says whether the contexts of calls were cancelled because the object, or
// its manager, ends.
func (o *instance) ends() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped || o.service.ctx.Err() != nil
}

// brief bounds the calls that count as brief: a method whose last call was
// shorter is expected to be as short again.
const brief = 50 * time.Microsecond

// next ends a call and returns the next to run, nil when none waits.
func (o *instance) next(done *call) *call {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, done.r.Request)
	o.running--
	for len(o.waiting) > 0 {
		c := o.waiting[0]
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		if c.over {
			o.over--
			continue
		}
		o.begin(c)
		return c
	}
	o.waiting = nil
	o.end()
	return nil
}

// GiveUp removes a waiting call, and cancels the context of a running one.
func (o *instance) GiveUp(r *object.Request) {
	o.mu.Lock()
	c := o.calls[r]
	if c != nil && !c.running {
		delete(o.calls, r)
		o.remove(c)
	}
	o.mu.Unlock()
	r.Fail(object.GivenUp, "") // first, before the cancelled method can answer
	if c != nil {
		c.cancel()
	}
}

// remove takes a call out of those that wait, in amortised constant time. The
// lock is held.
func (o *instance) remove(c *call) {
	c.over, c.r.Request = true, nil
	if o.over++; o.over > len(o.waiting)/2 {
		o.waiting = slices.DeleteFunc(o.waiting, func(c *call) bool { return c.over })
		o.over = 0
	}
}

// Left does nothing.
func (o *instance) Left(*object.Session, bool) {}

// Drop refuses the waiting calls, cancels the running ones, and closes the
// object when the last call has ended.
func (o *instance) Drop() {
	o.mu.Lock()
	if o.dropped {
		o.mu.Unlock()
		return
	}
	o.dropped = true
	var waiting, running []*call
	for r, c := range o.calls {
		if c.running {
			running = append(running, c)
		} else {
			delete(o.calls, r)
			waiting = append(waiting, c)
		}
	}
	o.waiting, o.over = nil, 0
	o.end()
	o.mu.Unlock()
	for _, c := range waiting {
		c.r.Fail(object.Gone, "")
		c.cancel()
	}
	for _, c := range running {
		c.cancel()
	}
}

// end closes a dropped object once no call runs. The lock is held.
func (o *instance) end() {
	if !o.dropped || o.closed || o.running > 0 {
		return
	}
	o.closed = true
	closer, ok := o.object.(io.Closer)
	if !ok {
		o.service.done(o)
		return
	}
	go func() {
		defer o.service.done(o)
		if failure := o.service.guard(o.name, closer.Close); failure != nil {
			o.service.opts.Log(o.name, failure)
		}
	}()
}
