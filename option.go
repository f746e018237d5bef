package fiber

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/meta"
)

// What can be configured has an interface each, whose one method is unexported: no
// other package makes options.
type (
	// ProcessOption configures NewProcess.
	ProcessOption interface{ process(*tree.Spec) error }

	// ManagerOption configures NewManager.
	ManagerOption interface{ manager(*tree.Spec) error }

	// PoolOption configures NewPool.
	PoolOption interface{ pool(*poolOptions) error }

	// RingOption configures NewRing.
	RingOption interface{ ring(*ringOptions) error }

	// QueueOption configures NewSimpleQueue, NewQueue and NewJoinableQueue.
	QueueOption interface{ queue(*queueOptions) error }

	// TypeOption configures RegisterType.
	TypeOption interface{ typ(*custom.Type) error }

	// CallOption configures a call of Apply, Map, IMap and their variants.
	CallOption interface{ call(*callOptions) error }

	// ShareOption configures Share.
	ShareOption interface{ share(*shareOptions) error }

	// Option configures NewProcess, NewManager, NewPool and NewRing alike.
	Option interface {
		ProcessOption
		ManagerOption
		PoolOption
		RingOption
	}
)

// WithName names what is made.
//
// Process-1, Process-2 and so on are the names of processes without one,
// Manager-1 and so on those of managers.
//
// A pool's workers are called name-1, name-2 and so on; pools of the same name
// share the count. Without a name they are called Pool1Worker-1 and so on in a
// process's first pool, Pool2Worker-1 and so on in its second. In a process that
// Fiber started, that process's place in the tree precedes the number, as in
// Pool1Worker-3.1, so that each worker of a run has a name of its own.
//
// A ring's processes are called name/rank-0 and so on, and Ring-1/rank-0 and so on
// without a name.
//
// ps, docker ps and kubectl get pods show processes by their names.
func WithName(name string) Option {
	return option(func(n *string, _ *meta.Resources) error {
		if strings.TrimSpace(name) == "" {
			return errors.New("fiber: WithName: the name is empty")
		}
		if strings.Contains(name, "\x00") {
			return fmt.Errorf("fiber: WithName: the name %q has a zero byte", name)
		}
		*n = name
		return nil
	})
}

// WithMeta sets the resources of what is made. Those of a process, and of each of a
// ring's processes, replace their function's. A pool's workers have them whatever
// function is run first, and the pool then rejects functions that are registered with
// other resources; it runs those with none. A manager has none otherwise.
func WithMeta(m ...meta.Option) Option {
	return option(func(_ *string, r *meta.Resources) (err error) {
		if *r, err = meta.Collect(m...); err != nil {
			err = fmt.Errorf("fiber: WithMeta: %w", err)
		}
		return err
	})
}

// option sets the name or the resources of what is made.
type option func(name *string, r *meta.Resources) error

func (o option) process(s *tree.Spec) error { return o(&s.Name, &s.Resources) }
func (o option) manager(s *tree.Spec) error { return o(&s.Name, &s.Resources) }
func (o option) pool(p *poolOptions) error  { return o(&p.name, &p.resources) }
func (o option) ring(r *ringOptions) error  { return o(&r.name, &r.resources) }

type (
	poolOption  func(*poolOptions) error
	queueOption func(*queueOptions) error
	typeOption  func(*custom.Type) error
	callOption  func(*callOptions) error
	shareOption func(*shareOptions) error
)

func (o poolOption) pool(p *poolOptions) error    { return o(p) }
func (o queueOption) queue(q *queueOptions) error { return o(q) }
func (o typeOption) typ(t *custom.Type) error     { return o(t) }
func (o callOption) call(c *callOptions) error    { return o(c) }
func (o shareOption) share(s *shareOptions) error { return o(s) }

// configured applies the options that were given to a function: apply, a method of
// theirs, has each change what.
func configured[T any, O comparable](function string, what T, opts []O, apply func(O, T) error) error {
	var none O
	for i, o := range opts {
		if o == none {
			return fmt.Errorf("fiber: %s: option %d of %d is nil; leave it out", function, i+1, len(opts))
		}
		if err := apply(o, what); err != nil {
			return err
		}
	}
	return nil
}
