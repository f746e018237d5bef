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
		s := &stream[In, Out]{ordered: ordered, segments: map[int]segment[Out]{}, blocks: map[int]*block[In]{},
			arrived: make(chan struct{}, 1), room: make(chan struct{}, 1), input: make(chan struct{}, 1), stopped: make(chan struct{})}
		s.count.fn, s.count.total = o.progress, -1
		call, err := pool.engine.Submit(s, 0, true, o.engine(fn.Name(), false))
		if err != nil {
			yield(zero, err)
			return
		}
		s.call = call
		defer call.Cancel()
		defer close(s.stopped)
		s.count.whenFailed(func(err error) {
			call.Cancel()
			s.Finish(err)
		})
		go s.extend()
		go s.pull(ins)
		for {
			seg, more, err := s.next(ctx)
			if err != nil {
				yield(zero, err)
				return
			}
			if !more {
				return
			}
			for i := range seg.n {
				out, err := seg.at(i)
				if !yield(out, err) {
					return
				}
				s.yielded1()
			}
		}
	}
}

// blockSize is how many inputs are kept and released together.
const blockSize = 64

// block holds some of a stream's inputs.
type block[In any] struct {
	ins  [blockSize]In
	left int // inputs whose results have not been delivered
}

// segment is the outcome of n consecutive tasks.
type segment[Out any] struct {
	n        int
	outs     []Out // nil if all tasks failed
	failures []engine.Failure
	bad      error // set instead of outs
}

// at returns the outcome of task i. It is called for each task, in order.
func (s *segment[Out]) at(i int) (out Out, err error) {
	if len(s.failures) > 0 && s.failures[0].Index == i {
		err = fromEngine(s.failures[0].Err)
		s.failures = s.failures[1:]
		return out, err
	}
	if s.bad != nil {
		return out, s.bad
	}
	return s.outs[i], nil
}

// stream is the source of an IMap.
type stream[In, Out any] struct {
	call    *engine.Call
	ordered bool
	count   progress

	arrived chan struct{} // wakes the loop
	room    chan struct{} // wakes pull
	input   chan struct{} // wakes extend
	stopped chan struct{} // closed when the loop is left

	mu       sync.Mutex
	blocks   map[int]*block[In] // by index/blockSize
	read     int                // number of inputs
	ended    bool               // no more inputs
	window   int                // how far read may be ahead of yielded
	yielded  int
	blocked  bool                 // pull waits for room
	segments map[int]segment[Out] // by their first index
	order    []int                // first indices in order of arrival, unless ordered
	broken   error                // a panic in ins
	failed   error
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pull reads the input.
func (s *stream[In, Out]) pull(ins iter.Seq[In]) {
	guard.Here(func() error {
		for in := range ins {
			if !s.push(in) {
				break
			}
			poke(s.input)
		}
		return nil
	}, func(err error) {
		s.mu.Lock()
		s.ended, s.broken = true, err
		s.mu.Unlock()
		s.count.mu.Lock()
		s.count.total = s.read
		s.count.mu.Unlock()
		poke(s.input)
	})
}

// extend offers inputs to the engine at once; those that were read while it was
// doing so go together.
func (s *stream[In, Out]) extend() {
	offered := 0
	for {
		select {
		case <-s.input:
		case <-s.stopped:
			return
		}
		s.mu.Lock()
		n, ended := s.read-offered, s.ended
		s.mu.Unlock()
		if n > 0 {
			offered += n
			s.call.Extend(n)
		}
		if ended {
			s.call.CloseInput()
			poke(s.arrived)
			return
		}
	}
}

// push keeps an input, waiting for room. It returns false when the loop was
// left.
func (s *stream[In, Out]) push(in In) bool {
	for {
		s.mu.Lock()
		if s.read%blockSize == 0 || s.read-s.yielded >= s.window {
			s.mu.Unlock()
			w := s.call.Window()
			s.mu.Lock()
			s.window = w
		}
		if s.read-s.yielded < s.window {
			b := s.blocks[s.read/blockSize]
			if b == nil {
				b = &block[In]{left: blockSize}
				s.blocks[s.read/blockSize] = b
			}
			b.ins[s.read%blockSize] = in
			s.read++
			s.mu.Unlock()
			select {
			case <-s.stopped:
				return false
			default:
				return true
			}
		}
		s.blocked = true
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-s.stopped:
			return false
		}
	}
}

func (s *stream[In, Out]) Encode(lo, hi int) ([][]byte, error) {
	ins := make([]In, 0, hi-lo)
	s.mu.Lock()
	for i := lo; i < hi; {
		b := s.blocks[i/blockSize]
		if b == nil { // the call was cancelled
			s.mu.Unlock()
			return nil, ErrClosed
		}
		from := i % blockSize
		to := min(blockSize, from+hi-i)
		ins = append(ins, b.ins[from:to]...)
		i += to - from
	}
	s.mu.Unlock()
	return encodeInputs(ins, lo)
}

func (s *stream[In, Out]) Deliver(lo, n int, value [][]byte, failures []engine.Failure) {
	seg := segment[Out]{n: n}
	for _, f := range failures {
		seg.failures = append(seg.failures, engine.Failure{Index: f.Index - lo, Err: f.Err})
	}
	if value != nil {
		seg.outs, seg.bad = decodeOutputs[Out](value, n)
	}
	s.count.add(n) // before the loop may end
	s.mu.Lock()
	for i := lo; i < lo+n; {
		b := s.blocks[i/blockSize]
		from := i % blockSize
		to := min(blockSize, from+lo+n-i)
		clear(b.ins[from:to])
		if b.left -= to - from; b.left == 0 {
			delete(s.blocks, i/blockSize)
		}
		i += to - from
	}
	s.segments[lo] = seg
	if !s.ordered {
		s.order = append(s.order, lo)
	}
	s.mu.Unlock()
	poke(s.arrived)
}

func (s *stream[In, Out]) Finish(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.failed = fromEngine(err)
	s.mu.Unlock()
	poke(s.arrived)
}

// next waits for the results that are to be yielded next.
func (s *stream[In, Out]) next(ctx context.Context) (seg segment[Out], more bool, err error) {
	for {
		s.mu.Lock()
		lo, ok := s.yielded, true
		if !s.ordered {
			if ok = len(s.order) > 0; ok {
				lo, s.order = s.order[0], s.order[1:]
			}
		}
		if ok {
			if seg, ok = s.segments[lo]; ok {
				delete(s.segments, lo)
				s.mu.Unlock()
				return seg, true, nil
			}
		}
		ended, broken, failed := s.ended && s.yielded == s.read, s.broken, s.failed
		s.mu.Unlock()
		switch {
		case broken != nil:
			panic(fmt.Sprintf("fiber: the input of IMap: %v", broken))
		case failed != nil:
			return seg, false, failed
		case ended:
			told := make(chan error, 1)
			s.count.whenTold(func(err error) { told <- err })
			select {
			case err = <-told:
			case <-ctx.Done(): // not an error: all results were yielded
			}
			return seg, false, err
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return seg, false, ctx.Err()
		}
	}
}

// yielded1 notes that the loop has taken another result.
func (s *stream[In, Out]) yielded1() {
	s.mu.Lock()
	s.yielded++
	resume := s.blocked && s.read-s.yielded <= s.window/2
	if resume {
		s.blocked = false
	}
	s.mu.Unlock()
	if resume {
		poke(s.room)
	}
}
