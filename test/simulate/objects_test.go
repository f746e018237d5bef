package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// objects are what the processes of a work share.
type objects struct {
	Dict    *fiber.Dict[int, int]
	Value   *fiber.Value[int]
	List    *fiber.List[int]
	Counter *fiber.Proxy[*counter]
	Lock    *fiber.Lock
	RLock   *fiber.RLock
	Permits *fiber.Semaphore
	Event   *fiber.Event
	Cond    *fiber.Condition
	Barrier *fiber.Barrier
	Queue   *fiber.Queue[int]
	Latch   *fiber.Lock      // which a process tries to get, and nobody waits for
	Signals *fiber.Semaphore // which begins with no permits
}

const (
	keys    = 3 // of the dict
	permits = 2 // of the semaphore
	parties = 2 // of the barrier
)

type counter struct{ n int }

// Add takes a moment, now and then, in which other calls come.
func (c *counter) Add(ctx context.Context, n int) (int, error) {
	if n%3 == 0 {
		time.Sleep(time.Duration(n) * time.Millisecond)
	}
	c.n += n
	return c.n, nil
}

var (
	counters   = fiber.RegisterType("counter", func(context.Context, int) (*counter, error) { return new(counter), nil })
	counterAdd = fiber.RegisterMethod("Add", (*counter).Add)
)

func newObjects(ctx context.Context, m *fiber.Manager) (o objects, err error) {
	var errs [13]error
	o.Dict, errs[0] = fiber.NewDict[int, int](ctx, m)
	o.Value, errs[1] = fiber.NewValue(ctx, m, 0)
	o.List, errs[2] = fiber.NewList[int](ctx, m)
	o.Counter, errs[3] = fiber.NewObject(ctx, m, counters, 0)
	o.Lock, errs[4] = fiber.NewLock(ctx, m)
	o.RLock, errs[5] = fiber.NewRLock(ctx, m)
	o.Permits, errs[6] = fiber.NewSemaphore(ctx, m, permits)
	o.Event, errs[7] = fiber.NewEvent(ctx, m)
	o.Cond, errs[8] = fiber.NewCondition(ctx, m, nil)
	o.Barrier, errs[9] = fiber.NewBarrier(ctx, m, parties)
	o.Queue, errs[10] = fiber.NewQueue[int](ctx, m)
	o.Latch, errs[11] = fiber.NewLock(ctx, m)
	o.Signals, errs[12] = fiber.NewSemaphore(ctx, m, 0)
	return o, errors.Join(errs[:]...)
}

// waits are methods that may wait for others.
var waits = []struct {
	name string
	late time.Duration // as long as it waits for word of whether it was done
	call func(ctx context.Context, o *objects, n int) error
}{
	{"event", 0, func(ctx context.Context, o *objects, n int) error { return o.Event.Wait(bounded(ctx)) }},
	{"barrier", settling, func(ctx context.Context, o *objects, n int) error {
		_, err := o.Barrier.Wait(bounded(ctx))
		return err
	}},
	{"barrier reset", settling, func(ctx context.Context, o *objects, n int) error { return o.Barrier.Reset(ctx) }},
	{"length", 0, func(ctx context.Context, o *objects, n int) error {
		_, err := o.Dict.Len(ctx)
		return err
	}},
	{"queue put", settling, func(ctx context.Context, o *objects, n int) error { return o.Queue.Put(ctx, n) }},
	{"queue get", 0, func(ctx context.Context, o *objects, n int) error {
		_, err := o.Queue.Get(bounded(ctx))
		return err
	}},
}

// locks are what processes hold, so many at a time.
var locks = []struct {
	name string
	most int
	of   func(o *objects) lock
}{
	{"lock", 1, func(o *objects) lock { return o.Lock }},
	{"rlock", 1, func(o *objects) lock { return o.RLock }},
	{"semaphore", permits, func(o *objects) lock { return o.Permits }},
	{"condition", 1, func(o *objects) lock { return o.Cond }},
}

// reacquire is how long Wait of a condition takes at most to have the lock again.
const reacquire = 5 * time.Second

type lock interface {
	Acquire(context.Context) error
	Release(context.Context) error
}

// bounded is ctx, which ends within some time, so that nobody waits for what may never come.
func bounded(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// objectsBook notes what the processes of a work have done with its objects.
type objectsBook struct {
	mu      sync.Mutex
	clock   int64
	history map[string][]porcupine.Operation
	holders map[string][]*sim.Process
	unsure  map[string]bool // what a dead process, or a call that has failed, may have or have given back
}

var ruleExclusive = rule("exclusive")

// hold holds a lock for a moment.
func (b *objectsBook) hold(ctx context.Context, w *world, r *rand.Rand, v visit) {
	o, which := &v.Objects, locks[r.IntN(len(locks))]
	if v.Which >= 0 {
		which = locks[v.Which]
	}
	if which.name == "condition" { // its proxy is one holder, whose Wait gives up all that it holds
		if !v.waiting.CompareAndSwap(false, true) {
			return
		}
		defer v.waiting.Store(false)
	}
	l, me := which.of(o), sim.Here()
	var err error
	if r.IntN(2) == 0 {
		err = w.ends(ctx, "Acquire of a "+which.name, l.Acquire)
	} else {
		err = w.within(ctx, r, settling, "Acquire of a "+which.name, l.Acquire)
	}
	w.checkError("Acquire", err)
	if err != nil && !errors.Is(err, fiber.ErrAbandoned) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	enter := func() {
		b.mu.Lock()
		b.holders[which.name] = append(slices.DeleteFunc(b.holders[which.name], func(p *sim.Process) bool { return !p.Alive() }), me)
		holders := slices.Clone(b.holders[which.name])
		b.mu.Unlock()
		if which.name == "rlock" { // its holder is a process
			holders = slices.Compact(holders)
		}
		if len(holders) > which.most && w.steady() {
			w.breach(ruleExclusive, "%s is held by %s and %s", which.name, holders[0].Name, me.Name)
		}
		w.bit(ruleExclusive)
	}
	leave := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := slices.Index(b.holders[which.name], me); i >= 0 {
			b.holders[which.name] = slices.Delete(b.holders[which.name], i, i+1)
		}
	}
	enter()
	time.Sleep(time.Duration(r.IntN(5)*r.IntN(5)*r.IntN(5)) * time.Millisecond)
	switch {
	case which.name == "condition" && r.IntN(3) == 0:
		leave()
		err := w.within(ctx, r, reacquire, "Wait", func(ctx context.Context) error { return o.Cond.Wait(bounded(ctx)) })
		w.givesBack("Wait", err)
		if again := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fiber.ErrAbandoned); err != nil && (!again || strings.Contains(err.Error(), "the lock is not held")) {
			return
		}
		enter()
	case which.name == "condition" && r.IntN(2) == 0:
		err := w.within(ctx, r, settling, "Notify", func(ctx context.Context) error { return o.Cond.Notify(ctx, 1) })
		w.givesBack("Notify", err)
	}
	leave()
	w.givesBack("Release", w.within(ctx, r, settling, "Release of a "+which.name, l.Release))
}

// givesBack checks the error of a method that only the holder may call: one whose connection has broken is none any more.
func (w *world) givesBack(what string, err error) {
	if w.steady() {
		w.checkError(what, err)
	}
}

// steady says whether a process that lives is taken for one by others: its connections don't break.
func (w *world) steady() bool {
	silent := time.Duration(0)
	for _, f := range w.run.Faults {
		switch f.Kind {
		case "reset", "machine", "freeze":
			return false
		case "cut", "split", "stop":
			silent += f.For
		}
	}
	return silent < heartbeat-2*time.Second
}

type visit struct {
	Objects objects
	Book    int
	Seed    uint64
	N       int
	Locks   bool // it mostly takes locks
	Which   int  // this one, -1 for any

	waiting *atomic.Bool // a goroutine uses the condition
}

// user uses objects, from several goroutines.
var user = fiber.Register("user", func(ctx context.Context, v visit) (int, error) {
	return 0, use(ctx, v)
})

func use(ctx context.Context, v visit) error {
	w, b := here(), bookOf[*objectsBook](v.Book)
	r := rand.New(rand.NewPCG(v.Seed, 1))
	v.waiting = new(atomic.Bool)
	var group sync.WaitGroup
	for g := range 1 + r.IntN(4) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(v.Seed, uint64(2+g)))
			for range v.N {
				if ctx.Err() != nil || !sim.Here().Alive() {
					return
				}
				what := r.IntN(6)
				if v.Locks && what > 0 {
					what = 1
				}
				switch what {
				case 0:
					one, n := waits[r.IntN(len(waits))], r.IntN(100)
					err := w.within(ctx, r, one.late, one.name, func(ctx context.Context) error { return one.call(ctx, &v.Objects, n) })
					w.checkError(one.name, err)
				case 1:
					b.hold(ctx, w, r, v)
				default:
					b.ask(ctx, w, r, &v.Objects, methods[r.IntN(len(methods))])
				}
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	for _, m := range methods {
		if m.object == "latch" && m.name == "release" { // which comes back when its holder ends
			b.ask(ctx, w, r, &v.Objects, m)
		}
	}
	return nil
}

func (b *objectsBook) tick() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	return b.clock
}

func init() {
	works["objects"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		m, end, err := w.home(ctx, r)
		if err != nil {
			w.checkError("NewManager", err)
			return nil
		}
		defer end()
		o, err := newObjects(ctx, m)
		if err != nil {
			w.checkError("making objects", err)
			return nil
		}
		if m != w.lodger && r.IntN(5) == 0 {
			go func() {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				w.run.Count(managerClosed)
				w.checkError("Close", m.Close())
			}()
		}
		b := &objectsBook{history: map[string][]porcupine.Operation{}, holders: map[string][]*sim.Process{}, unsure: map[string]bool{}}
		number := w.book(b)
		var group sync.WaitGroup
		n, which := 5+r.IntN(60), -1
		onlyLocks := r.IntN(3) == 0
		if r.IntN(2) == 0 {
			which = r.IntN(len(locks))
		}
		for range 1 + r.IntN(4) {
			v := visit{Objects: o, Book: number, Seed: r.Uint64(), N: n, Locks: onlyLocks, Which: which}
			group.Go(func() {
				p, err := start(ctx, user, v)
				if err == nil {
					err = p.Join(ctx)
					w.checkError("Join", err)
				}
				b.mu.Lock()
				b.unsure["latch"] = b.unsure["latch"] || err != nil
				b.mu.Unlock()
			})
		}
		err = use(ctx, visit{Objects: o, Book: number, Seed: r.Uint64(), N: n, Locks: onlyLocks, Which: which})
		group.Wait()
		if err != nil {
			return err
		}
		b.check(w)
		return nil
	}
}
