package fiber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/registry"
)

// State is something that a worker keeps from task to task, such as an environment, a
// model or a connection. Create it with RegisterState.
type State[In, S any] struct {
	entry *registry.Func
	open  func(context.Context, In) (S, error)
	close func(context.Context, S) error
	late  error
}

// RegisterState registers, under a name, what the workers of a pool made with WithState
// keep while they live. Like Register, call it while package variables are initialised:
//
//	var env = fiber.RegisterState("env", openEnv, closeEnv)
//
// open runs once in each worker, before its first task, with WithState's argument. The
// worker does not start if open fails; when no worker can start, the pool's calls fail
// with the reason. The context of open ends when the worker is told to end during
// open, or else when close has returned.
//
// close, unless it is nil, runs when the worker ends in order: its pool is closed, or it
// is replaced. Its context ends after shutdown_grace, and the worker then ends although
// close goes on; a worker that was told to end by a signal has three quarters of it for
// its tasks and close together. An error of close is logged. What a worker that was killed has left
// is closed by nobody.
//
// In travels, S does not: each worker has its own. RegisterState panics as Register does.
func RegisterState[In, S any](name string, open func(ctx context.Context, in In) (S, error), close func(ctx context.Context, s S) error) *State[In, S] {
	where := callerLine()
	bad := func(reason string) { panic(fmt.Sprintf("%s: fiber.RegisterState(%q): %s", where, name, reason)) }
	if open == nil {
		bad("the function that opens it is nil")
	}
	in := signature[In]("its argument", bad)
	s := &State[In, S]{open: open, close: close}
	s.entry = &registry.Func{Name: name, Decode: func(frames [][]byte, lo int) (registry.Tasks, error) {
		return decodeTasks(s.opened, frames, lo)
	}}
	s.late = register(registry.State, name, "("+in+")", where, s.entry)
	return s
}

// WithState has each worker of the pool open a state before its first task. A pool may
// have several: they are opened in the order of the options, among which WithInitializer
// counts, and closed in the reverse order; State.Get still finds those that were opened
// before. No state is given twice.
func WithState[In, S any](state *State[In, S], in In) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if err := state.usable(); err != nil {
			return errorf("fiber: WithState: %w", err)
		}
		if slices.ContainsFunc(o.setups, func(s setup) bool { return s.entry == state.entry }) {
			return fmt.Errorf("fiber: WithState: the state %s is given twice; register another one", state.entry.Name)
		}
		return o.setUp(registry.State, state.entry, "the state", func() ([][]byte, parcel, error) { return marshalNow([]In{in}) })
	})
}

// Get returns what open has returned in this worker. Tasks that run beside each other
// share it. The error says that this process is no worker of a pool made with
// WithState for this state.
func (s *State[In, S]) Get(ctx context.Context) (state S, err error) {
	if err := s.usable(); err != nil {
		return state, err
	}
	if ctx == nil {
		return state, errNilContext
	}
	if p := here(); p != nil {
		if v, ok := p.states.get(s); ok {
			return v.(S), nil
		}
	}
	return state, fmt.Errorf("fiber: the state %s is not open here: call Get in the tasks of a pool that is made with WithState for it", s.entry.Name)
}

func (s *State[In, S]) usable() error {
	if s == nil || s.entry == nil {
		return errEmpty("State")
	}
	return s.late
}

// opened opens the state in this worker.
func (s *State[In, S]) opened(ctx context.Context, in In) (none struct{}, err error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	v, err := s.open(own, in)
	stop()
	if err != nil {
		cancel()
		return none, err
	}
	here().states.add(&openState{of: s, name: s.entry.Name, value: v, close: func(ctx context.Context) error {
		defer cancel()
		if s.close == nil {
			return nil
		}
		return s.close(ctx, v)
	}})
	return none, nil
}

// openState is a state that this worker has opened.
type openState struct {
	of    any
	name  string
	value any
	close func(context.Context) error
}

// states are those that this worker has opened, in their order.
type states struct {
	mu  sync.RWMutex
	all []*openState
}

func (s *states) add(o *openState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

func (s *states) get(of any) (value any, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, o := range s.all {
		if o.of == of {
			return o.value, true
		}
	}
	return nil, false
}

// closeStates closes what this worker has opened, within shutdown_grace.
func (p *process) closeStates() {
	p.states.mu.RLock()
	all := p.states.all
	p.states.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.node.Config.ShutdownGrace)
	defer cancel()
	for i, o := range slices.Backward(all) {
		p.states.mu.Lock()
		p.states.all = all[:i]
		p.states.mu.Unlock()
		closed := make(chan error, 1)
		go func() { closed <- guard.Call(func() error { return o.close(ctx) }) }()
		var err error
		select {
		case err = <-closed:
		case <-ctx.Done():
			select {
			case err = <-closed:
			case <-time.After(closeGrace):
				err = errors.New("it goes on after shutdown_grace; the worker ends all the same")
			}
		}
		if err != nil {
			p.node.Log.Warn("fiber: a state was not closed", "state", o.name, "error", err)
		}
	}
}

// closeGrace is how long after shutdown_grace a function that closes a state may still return.
const closeGrace = 20 * time.Millisecond

// setup is what a pool's workers do before their first task.
type setup struct {
	kind   registry.Kind
	entry  *registry.Func
	what   string // for errors
	arg    [][]byte
	refers any // what arg refers to
}

// setUp adds to what workers do before their first task.
func (o *poolOptions) setUp(kind registry.Kind, entry *registry.Func, what string, encode func() ([][]byte, parcel, error)) error {
	what += " " + entry.Name
	value, p, err := encode()
	if err == nil {
		err = p.ends.depart()
	}
	if err != nil {
		return errorf("fiber: the argument of %s: %w", what, oneValue(err))
	}
	o.setups = append(o.setups, setup{kind, entry, what, value, p})
	return nil
}
