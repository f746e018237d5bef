package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// A watch runs operations that have deadlines, and finds those that outlast them. The clock that it measures with stands
// still while this process is stopped or starved.
type watch struct {
	bound   time.Duration // by how much an operation may outlast its context
	end     chan struct{}
	ended   sync.WaitGroup
	overdue context.Context // ends when an operation is overdue
	found   context.CancelFunc

	lock    sync.Mutex
	clock   time.Duration
	looked  time.Time
	running map[*operation]bool
	report  report
	say     func(fault string) // is told at once, too, unless it is nil
	who     int64              // names this process in the numbers of its items
	items   int64
}

// An operation is one that runs.
type operation struct {
	kind, hand string
	over       bool          // its context has ended
	ends       time.Duration // when
	overdue    bool
}

// A tally is about the operations of one kind.
type tally struct {
	Ran, Late, Unknown int           // how many there were, ended by their contexts, and may have been done
	Slow               int           // how many took longer than is documented, and a second more
	Overrun            time.Duration // the longest time from the end of an operation's context to its own
}

// report is what a process's operations have come to.
type report struct {
	Kinds  map[string]tally
	Faults []string // in short, what was wrong
	Lost   string   // an error that only a kill explains
	Ledger ledger
}

const (
	tick       = 50 * time.Millisecond
	documented = time.Second // how long an operation may outlast its context
)

func newWatch(bound time.Duration, who int64) *watch {
	w := &watch{bound: bound, who: who, end: make(chan struct{}), looked: time.Now(), running: map[*operation]bool{}}
	w.report = report{Kinds: map[string]tally{}, Ledger: ledger{}}
	w.overdue, w.found = context.WithCancel(context.Background())
	w.ended.Go(func() {
		for {
			select {
			case <-time.After(tick):
				w.look()
			case <-w.end:
				return
			}
		}
	})
	return w
}

// peek returns the report as it is.
func (w *watch) peek() report {
	w.lock.Lock()
	defer w.lock.Unlock()
	r := w.report
	r.Kinds, r.Ledger = maps.Clone(r.Kinds), maps.Clone(r.Ledger)
	return r
}

// close ends the watching, and returns the report.
func (w *watch) close() report {
	close(w.end)
	w.ended.Wait()
	w.found()
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.report
}

// now must be called under the lock.
func (w *watch) now() time.Duration {
	now := time.Now()
	w.clock += min(now.Sub(w.looked), 2*tick)
	w.looked = now
	return w.clock
}

// look finds what is overdue.
func (w *watch) look() {
	w.lock.Lock()
	defer w.lock.Unlock()
	now := w.now()
	for op := range w.running {
		if !op.over || op.overdue || now < op.ends+w.bound {
			continue
		}
		op.overdue = true
		beside := map[string]int{}
		for other := range w.running {
			if other != op {
				beside[other.kind+" of "+other.hand]++
			}
		}
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		for stack := range strings.SplitSeq(stacks.String(), "\n\n") { // the runtime's own, and idle ones, tell nothing
			if strings.Contains(stack, "watch).do(") || strings.Contains(stack, "fiber/internal/") || strings.Contains(stack, "fiber/transport") {
				fmt.Println(strings.ReplaceAll(functions.FindString(stack), "\n", " "), functions.FindAllString(stack, 14))
			}
		}
		w.fault("overdue: %s of %s has not returned %v after the end of its context; beside it run %v", op.kind, op.hand, (now - op.ends).Round(time.Millisecond), beside)
		w.found()
	}
}

// fault must be called under the lock.
func (w *watch) fault(format string, args ...any) {
	w.report.Faults = append(w.report.Faults, fmt.Sprintf(format, args...))
	if w.say != nil {
		w.say(w.report.Faults[len(w.report.Faults)-1])
	}
}

func (w *watch) wrong(format string, args ...any) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.fault(format, args...)
}

// lost records an error that only a kill explains.
func (w *watch) lost(err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.report.Lost == "" && err != nil {
		w.report.Lost = err.Error()
	}
}

// do runs an operation of a hand. It returns the operation's error as an outcome; only a lost is an error that the context
// does not explain.
func (w *watch) do(ctx context.Context, kind string, op func(ctx context.Context) error) (outcome, error) {
	hand, _ := ctx.Value(handKey{}).(string)
	o := &operation{kind: kind, hand: hand}
	w.lock.Lock()
	w.running[o] = true
	w.lock.Unlock()
	stop := context.AfterFunc(ctx, func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		o.over, o.ends = true, w.now()
	})
	err := op(ctx)
	stop()
	var remote *fiber.RemoteError
	over := ctx.Err() // after op's return, so that it is known if op saw it
	byContext := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)

	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.running, o)
	t := w.report.Kinds[kind]
	t.Ran++
	if o.over {
		overrun := w.now() - o.ends
		t.Overrun = max(t.Overrun, overrun)
		if overrun > documented+time.Second {
			t.Slow++
		}
	}
	out := done
	switch {
	case err == nil:
	case errors.Is(err, fiber.ErrUnknownOutcome):
		t.Unknown++
		out = unknown
		if over == nil || !errors.Is(err, over) {
			w.fault("%s of %s returned %q, which is not its context's %v", kind, hand, err, over)
		}
	case over != nil && errors.Is(err, over):
		t.Late++
		out = never
	case byContext && !errors.As(err, &remote):
		w.fault("%s of %s returned %q, but its context has %v", kind, hand, err, over)
		out = lost
	default:
		out = lost
	}
	w.report.Kinds[kind] = t
	return out, err
}

// outcome is what an operation's error says about it.
type outcome int

const (
	done    outcome = iota
	never           // its context has ended, and it has no effect
	unknown         // its context has ended, and it may have one
	lost            // anything else
)

// soon returns a context that may have a short deadline.
func soon(ctx context.Context, r *rand.Rand) (context.Context, context.CancelFunc) {
	waits := []time.Duration{0, time.Duration(r.IntN(5000)) * time.Microsecond, 20 * time.Millisecond, 100 * time.Millisecond}
	wait := waits[r.IntN(len(waits))]
	if r.IntN(4) == 0 { // ended by hand
		ctx, cancel := context.WithCancel(ctx)
		stop := time.AfterFunc(wait, cancel)
		return ctx, func() { stop.Stop(); cancel() }
	}
	return context.WithTimeout(ctx, wait)
}

type handKey struct{}

// A hand is a goroutine that repeats an operation, until the time is up or, if it is patient, it has done.
type hand struct {
	name    string
	patient bool
	op      func(ctx context.Context, r *rand.Rand) error
}

// errDone ends a hand.
var errDone = errors.New("done")

// hurried makes a hand of an operation, which gets a context that may have a short deadline.
func hurried(name string, op func(ctx context.Context, r *rand.Rand) error) hand {
	return hand{name: name, op: func(ctx context.Context, r *rand.Rand) error {
		ctx, cancel := soon(ctx, r)
		defer cancel()
		return op(ctx, r)
	}}
}

// few returns all the hands, or some of them: a connection that many use is another situation than one that two use.
func few(r *rand.Rand, hands []hand) (some []hand) {
	if r.IntN(2) == 0 {
		return hands
	}
	left := 1 + r.IntN(3)
	for _, i := range r.Perm(len(hands)) {
		if hands[i].patient || left > 0 {
			some = append(some, hands[i])
			left--
		}
	}
	return some
}

// work lets hands, or a few of them, work for some time, beside busy ones, which go on until the others have ended. An
// error ends all. If an operation is overdue, work returns at once, and wait waits for the hands.
func (w *watch) work(ctx context.Context, last time.Time, seed uint64, hands, busy []hand) (wait func()) {
	r := rand.New(rand.NewPCG(seed, 0))
	hands, busy = few(r, hands), few(r, busy)
	var waiting, filling sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	filled, full := context.WithCancel(ctx)
	run := func(ctx context.Context, wg *sync.WaitGroup, i int, h hand) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		ctx = context.WithValue(ctx, handKey{}, h.name)
		wg.Go(func() {
			for ctx.Err() == nil && (h.patient || time.Now().Before(last)) {
				switch err := h.op(ctx, r); {
				case errors.Is(err, errDone):
					return
				case err != nil:
					w.lost(fmt.Errorf("%s: %w", h.name, err))
					cancel()
					return
				}
			}
		})
	}
	for i, h := range busy {
		h.patient = true
		run(filled, &filling, 1000+i, h)
	}
	for i, h := range hands {
		run(ctx, &waiting, i, h)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		waiting.Wait()
		full()
		filling.Wait()
		cancel()
	}()
	select {
	case <-over:
	case <-w.overdue.Done():
		cancel()
	}
	return func() { <-over }
}

// addTallies adds figures to others.
func addTallies(kinds, more map[string]tally) {
	for kind, t := range more {
		kinds[kind] = kinds[kind].plus(t)
	}
}

func (t tally) plus(u tally) tally {
	return tally{t.Ran + u.Ran, t.Late + u.Late, t.Unknown + u.Unknown, t.Slow + u.Slow, max(t.Overrun, u.Overrun)}
}

func printTallies(kinds map[string]tally) {
	var sum tally
	line := func(kind string, t tally) {
		fmt.Printf("%-36s %8d ran, %7d ended by their contexts, %5d unknown, %4d over 2 s late, at most %v\n", kind, t.Ran, t.Late, t.Unknown, t.Slow, t.Overrun.Round(time.Millisecond))
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		sum = sum.plus(kinds[kind])
		line(kind, kinds[kind])
	}
	line("operations", sum)
}
