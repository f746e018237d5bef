package custom

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/registry"
)

// instance is an object of a user's type.
type instance struct {
	*runner
	typ    *Type
	name   string
	object any
}

var instanceTable = object.Ops(object.On(Call, (*instance).call))

// Serve takes a call.
func (o *instance) Serve(r *object.Request) { instanceTable.Serve(o, r) }

// Describe says what calls wait.
func (o *instance) Describe(d *event.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d.Kind, d.Waiting = o.name, o.waiting.Len()
}

func (o *instance) call(r object.Asked[object.Value], in Argument) {
	m, ok := registry.Find(registry.Method, in.Name).(*Method)
	switch {
	case !ok:
		r.Fail(object.Unknown, fmt.Sprintf("method %s is not registered in the manager's process", in.Name))
		return
	case m.Recv != o.typ.Recv:
		r.Fail(object.Unknown, fmt.Sprintf("method %s belongs to %s, but the object, a %s, is a %s", in.Name, m.Recv, o.name, o.typ.Recv))
		return
	}
	var out [][]byte
	var named any
	o.begin(&call{r: r.Request,
		do: func(ctx context.Context) (err error) {
			out, named, err = m.Call(ctx, o.object, in.Value.Frames())
			return err
		},
		answer: func(err error) {
			if err == nil {
				if err = o.service.opts.Fits(out); err != nil {
					err = fmt.Errorf("the result: %w", err)
				}
			}
			if err != nil {
				o.fail(r.Request, in.Name, err)
				return
			}
			if named != nil {
				r.Until(func() { runtime.KeepAlive(named) })
			}
			// The object may change what its method has returned.
			r.Reply(object.Encoded(out).Private())
		}})
}

// close closes the object.
func (o *instance) close() {
	s := o.service
	if closer, ok := o.object.(io.Closer); ok {
		if err := guard.Call(closer.Close); err != nil {
			s.opts.Log(o.name, s.opts.Error(o.name, err))
		}
	}
	s.mu.Lock()
	delete(s.objects, o)
	s.mu.Unlock()
	s.open.Done()
}
