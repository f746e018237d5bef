package fiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/self"
)

// IMap runs a function on each value of ins in the pool's workers and yields
// the results in the order of ins, each as soon as it and all before it are
// there. It is lazy on both sides: it reads ins just far enough ahead of the
// loop to keep the workers busy, so that endless input runs in bounded memory,
// and it sends each input out at once.
//
// When a task fails, its error, a *TaskError, is yielded in its place, and the loop
// goes on.
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
		if err == nil && ins == nil {
			err = errors.New("fiber: IMap: the input is nil")
		}
		if err != nil {
			yield(zero, err)
			return
		}
		s := &stream[In, Out]{ctx: ctx, fn: fn.Name(), in: readAhead[In]{ins: map[int]In{}}, out: arrivals[Out]{ordered: ordered, early: map[int]outcome[Out]{}}}
		s.in.room.L, s.in.more.L, s.out.news.L = &s.in.mu, &s.in.mu, &s.out.mu
		s.count.of(&o, -1)
		s.count.fail = s.abort
		if s.call, err = pool.engine.Submit(s, 0, true, o.CallOptions); err != nil {
			yield(zero, err)
			return
		}
		defer s.in.stop()
		defer s.call.Cancel()
		stop := self.AfterEnd(ctx, func() { s.abort(ctx.Err()) })
		defer stop()
		go s.in.offer(s.call)
		go s.pull(ins)
		for {
			some, err := s.out.wait()
			for _, x := range some {
				if !yield(x.out, x.err) {
					return
				}
				s.in.took()
			}
			switch reason := err.(type) {
			case nil:
				continue
			case inputPanic:
				panic(string(reason))
			}
			if err != io.EOF {
				yield(zero, err)
			}
			return
		}
	}
}

// stream is the source of an IMap.
type stream[In, Out any] struct {
	ctx   context.Context
	fn    string
	call  *engine.Call
	count progress
	in    readAhead[In]
	out   arrivals[Out]
}

// abort ends the loop and the call with an error.
func (s *stream[In, Out]) abort(err error) {
	s.out.end(err)
	s.call.Cancel()
}

// pull reads the input.
func (s *stream[In, Out]) pull(ins iter.Seq[In]) {
	guard.Here(func() error {
		for in := range ins {
			if !s.in.push(in, s.call.Window()) {
				break
			}
		}
		return nil
	}, func(err error) {
		s.count.all(s.in.read) // which only this goroutine changes
		if err != nil {
			s.out.end(inputPanic(fmt.Sprintf("fiber: the input of IMap: %v", err)))
		}
		s.in.stop()
	})
}

func (s *stream[In, Out]) Encode(lo, hi int) ([][]byte, error) {
	return encodeInputs(s.ctx, s.in.slice(lo, hi), lo)
}

func (s *stream[In, Out]) Deliver(lo, n int, value [][]byte, failures []engine.Failure) []int {
	some := make([]outcome[Out], n)
	outs, unread := decodeOutputs[Out](s.fn, value, lo, n, false, failures, func(e *TaskError) { some[e.Index-lo].err = e })
	for i, out := range outs {
		if some[i].err == nil {
			some[i].out = out
		}
	}
	failed := 0
	for _, x := range some {
		if x.err != nil {
			failed++
		}
	}
	s.count.add(n, failed) // before the loop may end
	s.in.forget(lo, n)
	s.out.add(lo, some)
	return unread
}

func (s *stream[In, Out]) Finish(err error) {
	if err != nil {
		s.out.end(fromEngine(err))
		return
	}
	s.count.whenTold(func() { s.out.end(io.EOF) }) // an end of ctx since then is no error
}

// readAhead is the inputs of an IMap, which are read some way ahead of its loop.
type readAhead[In any] struct {
	mu      sync.Mutex
	room    sync.Cond  // wakes push
	more    sync.Cond  // wakes offer
	ins     map[int]In // whose results have not been delivered
	read    int        // how many were read
	taken   int        // how many results the loop has taken
	window  int        // how far read may be ahead of taken
	stopped bool       // no more inputs are read
}

// push keeps an input, waiting for room. It returns false when no more are wanted.
func (a *readAhead[In]) push(in In, window int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.window = window
	for a.read-a.taken >= window && !a.stopped {
		a.room.Wait()
	}
	a.ins[a.read] = in
	a.read++
	a.more.Signal()
	return !a.stopped
}

// took notes that the loop has taken another result. push goes on when there is
// room for half a window.
func (a *readAhead[In]) took() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken++
	if a.read-a.taken <= a.window/2 {
		a.room.Signal()
	}
}

// offer offers inputs to the engine at once; those that were read while it was
// doing so go together.
func (a *readAhead[In]) offer(call *engine.Call) {
	for offered, stopped := 0, false; !stopped; {
		a.mu.Lock()
		for a.read == offered && !a.stopped {
			a.more.Wait()
		}
		n := a.read - offered
		stopped = a.stopped
		a.mu.Unlock()
		offered += n
		call.Extend(n)
	}
	call.CloseInput()
}

// stop ends the reading.
func (a *readAhead[In]) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.room.Signal()
	a.more.Signal()
}

// slice returns the inputs lo to hi-1.
func (a *readAhead[In]) slice(lo, hi int) []In {
	ins := make([]In, 0, hi-lo)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := lo; i < hi; i++ {
		ins = append(ins, a.ins[i])
	}
	return ins
}

// forget drops n inputs from lo on.
func (a *readAhead[In]) forget(lo, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range n {
		delete(a.ins, lo+i)
	}
}

// outcome says how a task has ended.
type outcome[Out any] struct {
	out Out
	err error
}

// inputPanic is a panic in the input, which becomes one in the loop.
type inputPanic string

func (p inputPanic) Error() string { return string(p) }

// arrivals is the outcomes on their way to the loop.
type arrivals[Out any] struct {
	ordered bool
	mu      sync.Mutex
	news    sync.Cond            // wakes the loop
	early   map[int]outcome[Out] // that wait for those before them
	next    int                  // the outcomes before this one have been in ready
	ready   []outcome[Out]       // to be yielded
	ended   error                // what follows them: io.EOF, or the loop's last error; nil while more may come
}

// add adds the outcomes of the tasks from lo on.
func (a *arrivals[Out]) add(lo int, some []outcome[Out]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news.Signal()
	if !a.ordered {
		a.ready = append(a.ready, some...)
		return
	}
	for i, x := range some {
		a.early[lo+i] = x
	}
	for x, ok := a.early[a.next]; ok; x, ok = a.early[a.next] {
		delete(a.early, a.next)
		a.next++
		a.ready = append(a.ready, x)
	}
}

// end ends the loop behind what is ready. Only the first call counts.
func (a *arrivals[Out]) end(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = cmp.Or(a.ended, why)
	a.news.Signal()
}

// wait waits for outcomes, and returns those that are next, or else why none are.
func (a *arrivals[Out]) wait() (some []outcome[Out], why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.ready) == 0 && a.ended == nil {
		a.news.Wait()
	}
	if len(a.ready) == 0 {
		return nil, a.ended
	}
	some, a.ready = a.ready, nil
	return some, nil
}
