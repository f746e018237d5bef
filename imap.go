package fiber

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

// IMap runs a function on each value of ins in the pool's workers and yields
// the results in the order of ins, each as soon as it and all before it are
// there. It is lazy on both sides: it reads ins just far enough ahead of the
// loop to keep the workers busy, so that endless input runs in bounded memory,
// and it sends each input out at once.
//
// When a task fails, its error is yielded in its place, and the loop goes on.
// When ctx ends or the pool closes, that error is yielded last. Leaving the
// loop cancels the remaining tasks. ins runs in a goroutine of its own, which
// ends when ins next yields; a panic in ins is a panic in the loop.
func IMap[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], opts ...CallOption) iter.Seq2[Out, error] {
	return imap(ctx, pool, fn, ins, true, opts)
}

// IMapUnordered is IMap, but yields results in the order in which they arrive.
func IMapUnordered[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], opts ...CallOption) iter.Seq2[Out, error] {
	return imap(ctx, pool, fn, ins, false, opts)
}

func imap[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], ordered bool, opts []CallOption) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var zero Out
		o, err := prepare(ctx, pool, fn, opts)
		if err != nil {
			yield(zero, err)
			return
		}
		s := &stream[In, Out]{ctx: ctx, ordered: ordered, ins: map[int]In{}, outcomes: map[int]outcome[Out]{}}
		s.arrived.L, s.room.L, s.input.L = &s.mu, &s.mu, &s.mu
		s.count.fn, s.count.total, s.count.fail = o.progress, -1, s.abort
		if s.call, err = pool.engine.Submit(s, 0, true, o.CallOptions); err != nil {
			yield(zero, err)
			return
		}
		defer s.leave()
		stop := context.AfterFunc(ctx, func() { s.abort(ctx.Err()) })
		defer stop()
		go s.extend()
		go s.pull(ins)
		for {
			some, err := s.next()
			for _, x := range some {
				if !yield(x.out, x.err) {
					return
				}
				s.took()
			}
			if err != nil {
				yield(zero, err)
			}
			if some == nil {
				return
			}
		}
	}
}

// outcome says how a task has ended.
type outcome[Out any] struct {
	out Out
	err error
}

// stream is the source of an IMap.
type stream[In, Out any] struct {
	ctx     context.Context
	call    *engine.Call
	ordered bool
	count   progress

	mu       sync.Mutex
	arrived  sync.Cond            // wakes the loop
	room     sync.Cond            // wakes pull
	input    sync.Cond            // wakes extend
	ins      map[int]In           // whose results have not been delivered
	read     int                  // number of inputs
	ended    bool                 // no more inputs
	left     bool                 // the loop was left
	yielded  int                  // results that the loop has taken
	window   int                  // how far read may be ahead of yielded
	outcomes map[int]outcome[Out] // that wait for earlier ones
	sorted   int                  // the outcomes before this one have been in ready
	ready    []outcome[Out]       // to be yielded
	told     bool                 // OnProgress knows of all tasks
	broken   error                // a panic in ins
	failed   error
}

// leave ends the call and the goroutines that read the input.
func (s *stream[In, Out]) leave() {
	s.call.Cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	s.room.Signal()
	s.input.Signal()
}

// abort ends the call and the loop with an error.
func (s *stream[In, Out]) abort(err error) {
	s.call.Cancel()
	s.fail(err)
}

// fail ends the loop with an error.
func (s *stream[In, Out]) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	s.arrived.Signal()
}

// pull reads the input.
func (s *stream[In, Out]) pull(ins iter.Seq[In]) {
	guard.Here(func() error {
		for in := range ins {
			if !s.push(in) {
				break
			}
		}
		return nil
	}, func(err error) {
		s.count.mu.Lock()
		s.count.total = s.read // which only this goroutine changes
		s.count.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended, s.broken = true, err
		s.input.Signal()
	})
}

// push keeps an input, waiting for room. It returns false when the loop was
// left.
func (s *stream[In, Out]) push(in In) bool {
	window := s.call.Window()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = window
	for s.read-s.yielded >= window && !s.left {
		s.room.Wait()
	}
	s.ins[s.read] = in
	s.read++
	s.input.Signal()
	return !s.left
}

// extend offers inputs to the engine at once; those that were read while it was
// doing so go together.
func (s *stream[In, Out]) extend() {
	for offered, ended := 0, false; !ended; {
		s.mu.Lock()
		for s.read == offered && !s.ended && !s.left {
			s.input.Wait()
		}
		n := s.read - offered
		ended = s.ended || s.left
		s.mu.Unlock()
		offered += n
		s.call.Extend(n)
	}
	s.call.CloseInput()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived.Signal()
}

func (s *stream[In, Out]) Encode(lo, hi int) ([][]byte, error) {
	ins := make([]In, 0, hi-lo)
	s.mu.Lock()
	for i := lo; i < hi; i++ {
		ins = append(ins, s.ins[i])
	}
	s.mu.Unlock()
	return encodeInputs(s.ctx, ins, lo)
}

func (s *stream[In, Out]) Deliver(lo, n int, value [][]byte, failures []engine.Failure) {
	some := make([]outcome[Out], n)
	if value != nil {
		outs, err := decodeOutputs[Out](value, n)
		for i := range some {
			if some[i].err = err; err == nil {
				some[i].out = outs[i]
			}
		}
	}
	for _, f := range failures {
		some[f.Index-lo] = outcome[Out]{err: fromEngine(f.Err)}
	}
	s.count.add(n) // before the loop may end
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range some {
		delete(s.ins, lo+i)
		if s.ordered {
			s.outcomes[lo+i] = x
		} else {
			s.ready = append(s.ready, x)
		}
	}
	for x, ok := s.outcomes[s.sorted]; ok; x, ok = s.outcomes[s.sorted] {
		delete(s.outcomes, s.sorted)
		s.sorted++
		s.ready = append(s.ready, x)
	}
	s.arrived.Signal()
}

func (s *stream[In, Out]) Finish(err error) {
	if err != nil {
		s.fail(fromEngine(err))
		return
	}
	s.count.whenTold(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = true
		s.arrived.Signal()
	})
}

// next waits for results, and returns those that are to be yielded next, or the
// error that ends the loop. Without either, the loop has come to its end.
func (s *stream[In, Out]) next() (some []outcome[Out], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case len(s.ready) > 0:
			some, s.ready = s.ready, nil
			return some, nil
		case s.broken != nil:
			panic(fmt.Sprintf("fiber: the input of IMap: %v", s.broken))
		case s.told: // an end of ctx since then is no error
			return nil, nil
		case s.failed != nil:
			return nil, s.failed
		}
		s.arrived.Wait()
	}
}

// took notes that the loop has taken another result. pull goes on when there is
// room for half a window.
func (s *stream[In, Out]) took() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yielded++
	if s.read-s.yielded <= s.window/2 {
		s.room.Signal()
	}
}
