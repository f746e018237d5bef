package manager

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
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
	waiting []*call
	calls   map[*home.Request]*call // running
	dropped bool
	closed  bool
}

type call struct {
	r      *home.Request
	method *Method
	name   string
	ctx    context.Context
	cancel context.CancelFunc
}

// Serve takes a call.
func (o *instance) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	key := args.String()
	if r.Op != Call || args.Err != nil {
		r.Malformed()
		return
	}
	m, ok := registry.Find(registry.Method, key).(*Method)
	switch {
	case !ok:
		r.Fail(home.Unknown, fmt.Sprintf("method %s is not registered in the manager's process", key))
		return
	case m.Recv != o.typ.Recv:
		r.Fail(home.Unknown, fmt.Sprintf("method %s is one of %s, and the object, a %s, is a %s", key, m.Recv, o.name, o.typ.Recv))
		return
	}
	c := &call{r: r, method: m, name: key}
	c.ctx, c.cancel = context.WithCancel(o.service.ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		c.cancel()
		r.Fail(home.Gone, "")
		return
	}
	if len(o.calls) > 0 && !o.typ.Concurrent {
		o.waiting = append(o.waiting, c)
		return
	}
	o.begin(c)
	go o.run(c)
}

// begin enters a running call. The lock is held.
func (o *instance) begin(c *call) {
	if o.calls == nil {
		o.calls = map[*home.Request]*call{}
	}
	o.calls[c.r] = c
}

// run runs a call, and those that have come meanwhile, one after another.
func (o *instance) run(c *call) {
	defer func() {
		if c == nil {
			return
		}
		// The method has ended this goroutine: another one goes on.
		fail(c.r, o.service.opts.Error(c.name, errGoexit))
		c.cancel()
		if c = o.next(c); c != nil {
			go o.run(c)
		}
	}()
	for c != nil {
		out, failure := o.invoke(c)
		if failure != nil {
			fail(c.r, failure)
		} else {
			// The object may change what its method has returned.
			c.r.Reply(nil, home.Value{Frames: out}.Private().Frames)
		}
		c.cancel()
		c = o.next(c)
	}
}

// invoke calls a method.
func (o *instance) invoke(c *call) (out [][]byte, failure *wire.Error) {
	defer func() {
		if value := recover(); value != nil {
			failure = o.service.opts.Panic(c.name, value, debug.Stack())
		}
	}()
	out, err := c.method.Call(c.ctx, o.object, c.r.Value)
	if err != nil {
		failure = o.service.opts.Error(c.name, err)
	}
	return out, failure
}

// next ends a call and gives the one to run now.
func (o *instance) next(done *call) *call {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, done.r)
	if len(o.waiting) == 0 {
		o.end()
		return nil
	}
	c := o.waiting[0]
	o.waiting = o.waiting[1:]
	o.begin(c)
	return c
}

// GiveUp takes a waiting call out, and ends a running one's context.
func (o *instance) GiveUp(r *home.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.calls[r]; c != nil {
		c.cancel()
	}
	for i, c := range o.waiting {
		if c.r == r {
			c.cancel()
			o.waiting = append(o.waiting[:i:i], o.waiting[i+1:]...)
			break
		}
	}
	r.Fail(home.GivenUp, "")
}

// Left has nothing to do.
func (o *instance) Left(*home.Peer, bool) {}

// Drop lets go of the object when its last call has ended.
func (o *instance) Drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		return
	}
	o.dropped = true
	for _, c := range o.calls {
		c.cancel()
	}
	for _, c := range o.waiting {
		c.cancel()
		c.r.Fail(home.Gone, "")
	}
	o.waiting = nil
	o.end()
}

// end closes a dropped object that nobody uses any more. The lock is held.
func (o *instance) end() {
	if !o.dropped || o.closed || len(o.calls) > 0 {
		return
	}
	o.closed = true
	closer, ok := o.object.(io.Closer)
	if !ok {
		o.service.closing.Done()
		return
	}
	go func() {
		defer o.service.closing.Done()
		o.service.guard(o.name, closer.Close)
	}()
}
