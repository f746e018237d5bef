package fiber

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/object"
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
	return outputs(results(ctx, pool, fn, ins, streaming{name: "IMap", ordered: true}, opts))
}

// IMapUnordered is IMap, but yields results in the order in which they arrive.
func IMapUnordered[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], opts ...CallOption) iter.Seq2[Out, error] {
	return outputs(results(ctx, pool, fn, ins, streaming{name: "IMapUnordered"}, opts))
}

// Result is the outcome of one task.
type Result[In, Out any] struct {
	Index    int           // of the input, from 0
	In       In            // as it was before it travelled
	Out      Out           // what the function returned, also beside an error
	Err      error         // a *TaskError; nil if the task succeeded
	Worker   string        // the process that ran it last, "" if none did
	Took     time.Duration // of its last run; the mean of tasks that were so short that they were reported together
	Attempts int           // how often it was started, or may have been; 0 if its input could not travel
}

// Results is IMapUnordered, but yields all that is known of each task: a failed one
// has its error in its Result. The second value is nil, but for the error of the call
// itself, which comes last: that ctx has ended, the pool was closed, or an argument of
// Results is wrong.
func Results[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], opts ...CallOption) iter.Seq2[Result[In, Out], error] {
	return results(ctx, pool, fn, ins, streaming{name: "Results", whole: true}, opts)
}

// outputs are what an IMap yields of results.
func outputs[In, Out any](all iter.Seq2[Result[In, Out], error]) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		for r, err := range all {
			if !yield(r.Out, cmp.Or(err, r.Err)) {
				return
			}
		}
	}
}

// streaming says in what IMap, IMapUnordered and Results differ.
type streaming struct {
	name    string
	ordered bool
	whole   bool // inputs, and what is returned beside errors, are wanted
}

func results[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins iter.Seq[In], how streaming, opts []CallOption) iter.Seq2[Result[In, Out], error] {
	return func(yield func(Result[In, Out], error) bool) {
		var zero Result[In, Out]
		o, err := prepare(ctx, pool, fn, opts)
		if err == nil && ins == nil {
			err = fmt.Errorf("fiber: %s: the input is nil", how.name)
		}
		if err != nil {
			yield(zero, err)
			return
		}
		s := &stream[In, Out]{ctx: ctx, fn: fn.Name(), how: how, in: readAhead[In]{ins: map[int]In{}},
			out: arrivals[Result[In, Out]]{ordered: how.ordered, early: map[int]Result[In, Out]{}}}
		o.KeepFailed = how.whole
		s.in.room.L, s.in.more.L, s.out.news.L = &s.in.mu, &s.in.mu, &s.out.mu
		o.retry()
		s.found = found[In, Out]{keys: map[string]recordPlace{}, loaded: map[int64]*loaded[Out]{}}
		nothing := func(*kept[In, Out]) error { return nil }
		s.kept, err = openCheckpoint(ctx, pool.proc, &o, 0, nothing, func(c *kept[In, Out], k *checkpoint.Record, offset int64, _ [][]byte) error {
			s.found.note(c, k, offset)
			return nil
		})
		if err != nil {
			yield(zero, err)
			return
		}
		if s.kept != nil {
			slices.SortFunc(s.found.ranges, func(a, b rangeOf) int { return cmp.Compare(a.lo, b.lo) })
			if s.kept.key != nil {
				s.in.keys = map[int]string{}
				o.Keys = func(lo, hi int) []uint64 { return seedsOf(s.in.keysOf(lo, hi)) }
			}
			defer s.kept.release()
		}
		s.count.fail = s.abort
		s.count.of(&o, pool, -1)
		defer s.count.end(nil)
		o.near(pool, func(task int) []object.Ref { return refsIn(&s.in.slice(task, task+1)[0]) })
		if s.call, err = pool.engine.Submit(s, 0, true, o.CallOptions); err != nil {
			yield(zero, err)
			return
		}
		defer s.in.stop()
		defer s.call.Cancel(nil)
		stop := self.AfterEnd(ctx, func() { s.abort(ctx.Err()) })
		defer stop()
		go s.in.offer(s.call)
		go s.pull(ins)
		for {
			some, err := s.out.wait()
			var tally engine.Tally
			for _, x := range some {
				if failed, ok := x.Err.(*TaskError); ok {
					if tally.Failed == 0 {
						tally = s.call.Tally()
						tally.Failed = max(tally.Failed, 1) // this one, of which the engine is about to hear
					}
					failed.fate.tally = tally
				}
				if !yield(x, nil) {
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
			if err == io.EOF && s.kept != nil {
				err = s.kept.over(ctx)
			}
			if err != nil && err != io.EOF {
				yield(zero, err)
			}
			return
		}
	}
}

// stream is the source of an IMap or Results.
type stream[In, Out any] struct {
	ctx   context.Context
	fn    string
	how   streaming
	call  *engine.Call
	count progress
	kept  *kept[In, Out] // nil for none
	found found[In, Out] // what it has
	in    readAhead[In]
	out   arrivals[Result[In, Out]]
}

// abort ends the loop and the call with an error.
func (s *stream[In, Out]) abort(err error) {
	s.out.end(err)
	s.call.Cancel(err)
}

// pull reads the input.
func (s *stream[In, Out]) pull(ins iter.Seq[In]) {
	guard.Here(func() error {
		for in := range ins {
			var out Out
			var keys []string
			finished := false
			i := s.in.read // which only this goroutine changes
			if s.kept != nil {
				var err error
				keys = s.kept.keys([]In{in})
				if out, finished, err = s.found.of(s.kept, i, []In{in}, keys); err != nil {
					s.abort(s.kept.error(err))
					break
				}
			}
			if window, most := s.call.Window(); !s.in.push(in, keys, finished, window, most) {
				break
			}
			if finished {
				x := Result[In, Out]{Index: i, Out: out}
				if s.how.whole {
					x.In = in
				}
				s.count.had(1)
				s.out.add(i, []Result[In, Out]{x})
			}
		}
		return nil
	}, func(err error) {
		s.count.all(s.in.read) // which only this goroutine changes
		if err != nil {
			s.out.end(inputPanic(fmt.Sprintf("fiber: the input of %s: %v", s.how.name, err)))
		}
		s.in.stop()
	})
}

func (s *stream[In, Out]) Encode(lo, hi int) ([][]byte, error) {
	return encodeInputs(s.ctx, s.in.slice(lo, hi), lo)
}

func (s *stream[In, Out]) Deliver(o engine.Outcome) []int {
	some := make([]Result[In, Out], o.N)
	failed := 0
	var listed func(any) bool
	if s.kept != nil {
		listed = names
	}
	outs, named, unread := decodeOutputs[Out](s.fn, o, false, listed, func(e *TaskError) {
		x := &some[e.Index-o.Lo]
		x.Err, x.Attempts = e, e.Attempt
		e.fate = &fate{input: brief(s.in.slice(e.Index, e.Index+1)[0]), checkpoint: s.kept.where()}
		failed++
	})
	if s.kept != nil {
		if err := s.kept.add(o, s.in.slice(o.Lo, o.Lo+o.N), s.in.keysOf(o.Lo, o.Lo+o.N), named, unread); err != nil {
			s.abort(err)
			return unread
		}
	}
	for i := range some {
		x := &some[i]
		x.Index = o.Lo + i
		if i < len(outs) && (x.Err == nil || s.how.whole) {
			x.Out = outs[i]
		}
		if o.Worker != "" {
			x.Worker, x.Took, x.Attempts = o.Worker, o.Each, 1+o.Reruns[x.Index]
		}
	}
	if s.how.whole {
		for i, in := range s.in.slice(o.Lo, o.Lo+o.N) {
			some[i].In = in
		}
	}
	s.count.add(o.N-len(o.Again), failed) // before the loop may end
	if len(o.Again) > 0 {
		s.in.again(o.Again)
	}
	for lo, hi := range o.Delivered() {
		s.in.forget(lo, hi-lo)
		s.out.add(lo, some[lo-o.Lo:hi-o.Lo])
	}
	return unread
}

func (s *stream[In, Out]) Finish(err error, _ engine.Tally) {
	why := io.EOF // an end of ctx since then is no error
	if err != nil {
		why = fromEngine(err)
	}
	s.count.end(func() { s.out.end(why) })
}

// readAhead is the inputs of a stream, which are read some way ahead of its loop.
type readAhead[In any] struct {
	mu      sync.Mutex
	room    sync.Cond      // wakes push
	more    sync.Cond      // wakes offer
	keys    map[int]string // of ins, for a checkpoint; nil if they have none
	ins     map[int]In     // whose results have not been delivered
	read    int            // how many were read
	taken   int            // how many results the loop has taken
	window  int            // how far read may be ahead of taken
	late    map[int]bool   // inputs of tasks that have failed and run again: they do not count for the window
	stopped bool           // no more inputs are read
	offers  []offer        // inputs that the engine does not know yet
}

// push keeps an input, waiting for room. It returns false when no more are wanted.
func (a *readAhead[In]) push(in In, keys []string, finished bool, window, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.window = window
	if finished { // it keeps no worker busy, but takes memory
		window += finishedAhead
	}
	for (a.ahead() >= window || a.read-a.taken >= most) && !a.stopped {
		a.room.Wait()
	}
	last := len(a.offers) - 1
	if last < 0 || finished && a.offers[last].fresh > 0 {
		a.offers = append(a.offers, offer{})
		last++
	}
	if finished {
		a.offers[last].finished++
	} else {
		a.offers[last].fresh++
		if a.ins[a.read] = in; a.keys != nil {
			a.keys[a.read] = keys[0]
		}
	}
	a.read++
	a.more.Signal()
	return !a.stopped
}

// ahead returns how far the reading is ahead of the loop, but for tasks that run again.
func (a *readAhead[In]) ahead() int { return a.read - a.taken - len(a.late) }

// again notes that tasks have failed and run again. Others take their place meanwhile.
func (a *readAhead[In]) again(tasks []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range tasks {
		if a.late == nil {
			a.late = map[int]bool{}
		}
		a.late[i] = true
	}
	a.room.Signal()
}

// took notes that the loop has taken another result. push goes on when there is
// room for half a window.
func (a *readAhead[In]) took() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken++
	if a.ahead() <= a.window/2 {
		a.room.Signal()
	}
}

// offer offers inputs to the engine at once; those that were read while it was
// doing so go together.
func (a *readAhead[In]) offer(call *engine.Call) {
	for stopped := false; !stopped; {
		a.mu.Lock()
		for len(a.offers) == 0 && !a.stopped {
			a.more.Wait()
		}
		offers := a.offers
		a.offers, stopped = nil, a.stopped
		a.mu.Unlock()
		for _, o := range offers {
			call.Extend(o.finished, o.fresh)
		}
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

// keysOf returns the keys of the inputs lo to hi-1, nil if they have none. Those of what has run elsewhere meanwhile are gone.
func (a *readAhead[In]) keysOf(lo, hi int) (keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := lo; i < hi && a.keys != nil; i++ {
		keys = append(keys, a.keys[i])
	}
	return keys
}

// finishedAhead is how many results of a checkpoint may wait for the loop.
const finishedAhead = 64

// forget drops n inputs from lo on.
func (a *readAhead[In]) forget(lo, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range n {
		delete(a.ins, lo+i)
		delete(a.late, lo+i)
		delete(a.keys, lo+i)
	}
}

// offer is inputs for the engine: some that are finished, and some behind them that are not.
type offer struct{ finished, fresh int }

// inputPanic is a panic in the input, which becomes one in the loop.
type inputPanic string

func (p inputPanic) Error() string { return string(p) }

// arrivals is the outcomes on their way to the loop.
type arrivals[R any] struct {
	ordered bool
	mu      sync.Mutex
	news    sync.Cond // wakes the loop
	early   map[int]R // that wait for those before them
	next    int       // the outcomes before this one have been in ready
	ready   []R       // to be yielded
	ended   error     // what follows them: io.EOF, or the loop's last error; nil while more may come
}

// add adds the outcomes of the tasks from lo on.
func (a *arrivals[R]) add(lo int, some []R) {
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
func (a *arrivals[R]) end(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = cmp.Or(a.ended, why)
	a.news.Signal()
}

// wait waits for outcomes, and returns those that are next, or else why none are.
func (a *arrivals[R]) wait() (some []R, why error) {
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
