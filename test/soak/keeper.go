package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
)

// shelf are the objects of a manager that processes use in a hurry.
type shelf struct {
	Queue     *fiber.Queue[load]
	Joinable  *fiber.JoinableQueue[load]
	Dict      *fiber.Dict[int64, int64]
	Big       *fiber.Dict[int64, []byte]
	List      *fiber.List[int64]
	Value     *fiber.Value[int64]
	Lock      *fiber.Lock
	Semaphore *fiber.Semaphore
	Condition *fiber.Condition
	Event     *fiber.Event
	Barrier   *fiber.Barrier
	Counter   *fiber.Proxy[*counter]
	Noise     *fiber.Queue[int64]
	Empty     *fiber.Queue[int64]
	Clutter   *fiber.Dict[int64, int64]
	Ticker    *fiber.Proxy[*counter]
	Slow      *fiber.Proxy[*sleeper]
}

// sleeper is an object whose method takes its time, and heeds its context.
type sleeper struct{}

func (*sleeper) Nap(ctx context.Context, long time.Duration) (int, error) {
	select {
	case <-time.After(long):
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

var (
	sleepers = fiber.RegisterType("sleeper", func(context.Context, int) (*sleeper, error) { return &sleeper{}, nil }, fiber.WithConcurrentCalls())
	nap      = fiber.RegisterMethod("nap", (*sleeper).Nap)
)

const (
	permits = 2
	holder  = -1      // the key of the lock's holder in the dict
	calls   = "calls" // in a ledger
	join    = "JoinableQueue.Join"
)

func newShelf(ctx context.Context, m *fiber.Manager, capacity int) (o shelf, err error) {
	var errs [17]error
	var limit []fiber.QueueOption
	if capacity > 0 {
		limit = append(limit, fiber.WithCapacity(capacity))
	}
	o.Queue, errs[0] = fiber.NewQueue[load](ctx, m, limit...)
	o.Joinable, errs[1] = fiber.NewJoinableQueue[load](ctx, m, limit...)
	o.Dict, errs[2] = fiber.NewDict[int64, int64](ctx, m)
	o.Big, errs[3] = fiber.NewDict[int64, []byte](ctx, m)
	o.List, errs[4] = fiber.NewList[int64](ctx, m)
	o.Value, errs[5] = fiber.NewValue[int64](ctx, m, 0)
	o.Lock, errs[6] = fiber.NewLock(ctx, m)
	o.Semaphore, errs[7] = fiber.NewSemaphore(ctx, m, permits)
	o.Condition, errs[8] = fiber.NewCondition(ctx, m, nil)
	o.Event, errs[9] = fiber.NewEvent(ctx, m)
	o.Barrier, errs[10] = fiber.NewBarrier(ctx, m, 3)
	o.Counter, errs[11] = fiber.NewObject(ctx, m, counters, 0)
	o.Noise, errs[12] = fiber.NewQueue[int64](ctx, m)
	o.Clutter, errs[13] = fiber.NewDict[int64, int64](ctx, m)
	o.Ticker, errs[14] = fiber.NewObject(ctx, m, counters, 0)
	o.Empty, errs[15] = fiber.NewQueue[int64](ctx, m)
	o.Slow, errs[16] = fiber.NewObject(ctx, m, sleepers, 0)
	return o, errors.Join(errs[:]...)
}

// try does an operation, and returns an error that its context does not explain.
func (w *watch) try(ctx context.Context, kind string, op func(ctx context.Context) error) error {
	out, err := w.do(ctx, kind, op)
	return fatal(out, err)
}

// busyHands keep the connection busy.
func (o shelf) busyHands(w *watch) []hand {
	return []hand{
		{name: "busy Dict.Set", op: func(ctx context.Context, r *rand.Rand) error {
			return w.try(ctx, "busy Dict.Set", func(ctx context.Context) error { return o.Clutter.Set(ctx, r.Int64N(50), 1) })
		}},
		{name: "busy Queue.Put", op: func(ctx context.Context, r *rand.Rand) error {
			if err := w.try(ctx, "busy Queue.Put", func(ctx context.Context) error { return o.Noise.Put(ctx, 1) }); err != nil || ctx.Err() != nil {
				return err
			}
			return w.try(ctx, "busy Queue.Get", func(ctx context.Context) error { _, err := o.Noise.Get(ctx); return err })
		}},
		{name: "busy Call", op: func(ctx context.Context, r *rand.Rand) error {
			return w.try(ctx, "busy Call", func(ctx context.Context) error { _, err := fiber.Call(ctx, o.Ticker, add, 1); return err })
		}},
	}
}

// hands use each kind of object in a hurry.
func (o shelf) hands(w *watch) []hand {
	set := dictLine{maybe: map[int64]bool{}}
	var inside atomic.Int64
	hands := append(w.storeHands("a manager's Queue", o.Queue), w.storeHands("a manager's JoinableQueue", joinable{o.Joinable})...)
	return append(hands,
		hurried("who waits for nothing", func(ctx context.Context, _ *rand.Rand) error {
			return w.try(ctx, "Get, an empty Queue", func(ctx context.Context) error { _, err := o.Empty.Get(ctx); return err })
		}),
		hurried("who calls slow methods", func(ctx context.Context, r *rand.Rand) error {
			long := time.Duration(r.IntN(300)) * time.Millisecond
			return w.try(ctx, "Call, slow", func(ctx context.Context) error { _, err := fiber.Call(ctx, o.Slow, nap, long); return err })
		}),
		hurried("who joins", func(ctx context.Context, _ *rand.Rand) error {
			return w.try(ctx, join, o.Joinable.Join)
		}),
		hurried("who sets", func(ctx context.Context, r *rand.Rand) error { return set.step(ctx, w, o.Dict) }),
		hurried("who uses the dict", func(ctx context.Context, r *rand.Rand) error {
			key := r.Int64N(20)
			switch r.IntN(8) {
			case 0:
				return w.try(ctx, "Dict.Get", func(ctx context.Context) error { _, _, err := o.Big.Get(ctx, key); return err })
			case 1:
				return w.try(ctx, "Dict.Pop", func(ctx context.Context) error { _, _, err := o.Big.Pop(ctx, key); return err })
			case 2:
				return w.try(ctx, "Dict.Keys", func(ctx context.Context) error { _, err := o.Big.Keys(ctx); return err })
			case 3:
				return w.try(ctx, "Dict.Update", func(ctx context.Context) error {
					_, err := o.Clutter.Update(ctx, key, func(n int64, _ bool) (int64, error) { return n + 1, nil })
					return err
				})
			case 4:
				return w.try(ctx, "Dict.Len", func(ctx context.Context) error { _, err := o.Big.Len(ctx); return err })
			case 5:
				return w.try(ctx, "List.Append", func(ctx context.Context) error { return o.List.Append(ctx, key) })
			case 6:
				return w.try(ctx, "List.Slice", func(ctx context.Context) error { _, err := o.List.Slice(ctx, 0, 0); return err })
			}
			return w.try(ctx, "Value.Get", func(ctx context.Context) error { _, err := o.Value.Get(ctx); return err })
		}),
		hurried("who sets large values", func(ctx context.Context, r *rand.Rand) error {
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			return w.try(ctx, "Dict.Set, 4 MiB", func(ctx context.Context) error { return o.Big.Set(ctx, r.Int64N(3), filling()) })
		}),
		hurried("who calls", func(ctx context.Context, r *rand.Rand) error {
			out, err := w.do(ctx, "Call", func(ctx context.Context) error { _, err := fiber.Call(ctx, o.Counter, add, 1); return err })
			w.count(out)
			return fatal(out, err)
		}),
		hand{name: "who calls with futures", op: func(ctx context.Context, r *rand.Rand) error {
			brief, cancel := soon(ctx, r)
			defer cancel()
			var f *fiber.Future[int]
			if err := w.try(brief, "CallAsync", func(ctx context.Context) error { f = fiber.CallAsync(ctx, o.Counter, add, 1); return nil }); err != nil {
				return err
			}
			out, err := w.do(brief, "Future.Get", func(ctx context.Context) error { _, err := f.Get(ctx); return err })
			w.count(out)
			return fatal(out, err)
		}},
		o.lockHand(w, &inside, "who locks"), o.lockHand(w, &inside, "who locks, too"),
		o.semaphoreHand(w, "who takes permits"), o.semaphoreHand(w, "who takes permits, too"), o.semaphoreHand(w, "who takes permits as well"),
		o.conditionHand(w, "who waits for notices"), o.conditionHand(w, "who waits for notices, too"),
		hurried("who waits for the event", func(ctx context.Context, r *rand.Rand) error {
			return w.try(ctx, "Event.Wait", func(ctx context.Context) error { return o.Event.Wait(ctx) })
		}),
		hurried("who sets the event", func(ctx context.Context, r *rand.Rand) error {
			if err := w.try(ctx, "Event.Set", func(ctx context.Context) error { return o.Event.Set(ctx) }); err != nil {
				return err
			}
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			return w.try(ctx, "Event.Clear", func(ctx context.Context) error { return o.Event.Clear(ctx) })
		}),
		hurried("who comes to the barrier", func(ctx context.Context, r *rand.Rand) error {
			broken := false
			err := w.try(ctx, "Barrier.Wait", func(ctx context.Context) error {
				_, err := o.Barrier.Wait(ctx)
				if broken = errors.Is(err, fiber.ErrBrokenBarrier); broken {
					return nil
				}
				return err
			})
			if err == nil && broken {
				err = w.try(ctx, "Barrier.Reset", func(ctx context.Context) error { return o.Barrier.Reset(ctx) })
			}
			return err
		}),
	)
}

// count records a call that adds 1.
func (w *watch) count(out outcome) { w.put(calls, out, w.next()) }

// joinable is a queue whose consumers finish each item.
type joinable struct{ *fiber.JoinableQueue[load] }

func (j joinable) finish(ctx context.Context, w *watch, n int) error {
	for range n {
		if err := w.try(context.WithoutCancel(ctx), "TaskDone", j.TaskDone); err != nil {
			return err
		}
	}
	return nil
}

// A dictLine sets one key of a dict to one number after the other.
type dictLine struct {
	n, acked int64
	maybe    map[int64]bool // since the last acknowledged one
}

func (d *dictLine) step(ctx context.Context, w *watch, dict *fiber.Dict[int64, int64]) error {
	d.n++
	out, err := w.do(ctx, "Dict.Set", func(ctx context.Context) error { return dict.Set(ctx, w.who, d.n) })
	switch out {
	case done:
		d.acked, d.maybe = d.n, map[int64]bool{}
	case unknown:
		d.maybe[d.n] = true
	case lost:
		return err
	}
	if d.acked == 0 || d.n%20 > 0 {
		return nil
	}
	var n int64
	out, err = w.do(context.WithoutCancel(ctx), "Dict.Get", func(ctx context.Context) (err error) {
		n, _, err = dict.Get(ctx, w.who)
		return err
	})
	if out == done && n != d.acked && !d.maybe[n] {
		w.wrong("Dict: the value is %d; %d was the last that Set has set, and %v may be set: Set returned the context's error alone", n, d.acked, d.maybe)
	}
	return fatal(out, err)
}

// lockHand holds the lock. inside counts its holders in this process.
func (o shelf) lockHand(w *watch, inside *atomic.Int64, name string) hand {
	return hand{name: name, op: func(long context.Context, r *rand.Rand) error {
		ctx, cancel := soon(long, r)
		defer cancel()
		abandoned := false
		out, err := w.do(ctx, "Lock.Acquire", func(ctx context.Context) error {
			err := o.Lock.Acquire(ctx)
			if abandoned = errors.Is(err, fiber.ErrAbandoned); abandoned {
				return nil
			}
			return err
		})
		if out != done {
			return fatal(out, err)
		}
		if n := inside.Add(1); n != 1 {
			w.wrong("Lock: %d holders in a process", n)
		}
		me := w.who + 1
		err = w.try(long, "Dict.CompareAndSet", func(ctx context.Context) error {
			free, err := o.Dict.CompareAndSet(ctx, holder, 0, me)
			if err == nil && !free && !abandoned {
				other, _, err := o.Dict.Get(ctx, holder)
				w.wrong("Lock: holder %d finds holder %d, %v", me, other, err)
			}
			return err
		})
		time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		inside.Add(-1)
		if err == nil {
			err = w.try(long, "Dict.Set", func(ctx context.Context) error { return o.Dict.Set(ctx, holder, 0) })
		}
		if err != nil || long.Err() != nil { // the lock stays held, and is given back when this process ends
			return err
		}
		return w.try(ctx, "Lock.Release", o.Lock.Release)
	}}
}

func (o shelf) semaphoreHand(w *watch, name string) hand {
	return hurried(name, func(ctx context.Context, r *rand.Rand) error {
		taken := false
		out, err := w.do(ctx, "Semaphore.Acquire", func(ctx context.Context) error { return o.Semaphore.Acquire(ctx) })
		if taken = out == done; !taken && out != lost {
			out, err = w.do(ctx, "Semaphore.TryAcquire", func(ctx context.Context) (err error) {
				taken, err = o.Semaphore.TryAcquire(ctx)
				return err
			})
		}
		if out == lost || !taken {
			return fatal(out, err)
		}
		time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
		return w.try(ctx, "Semaphore.Release", o.Semaphore.Release)
	})
}

func (o shelf) conditionHand(w *watch, name string) hand {
	condition := new(fiber.Condition) // a proxy of its own, since whoever holds the lock may acquire it again
	b, err := o.Condition.MarshalBinary()
	if err = errors.Join(err, condition.UnmarshalBinary(b)); err != nil {
		w.wrong("%v", err)
	}
	return hand{name: name, op: func(long context.Context, r *rand.Rand) error {
		ctx, cancel := soon(long, r)
		defer cancel()
		orAbandoned := func(op func(ctx context.Context) error) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				if err := op(ctx); !errors.Is(err, fiber.ErrAbandoned) {
					return err
				}
				return nil
			}
		}
		out, err := w.do(ctx, "Condition.Acquire", orAbandoned(condition.Acquire))
		if out != done {
			return fatal(out, err)
		}
		if r.IntN(2) == 0 {
			err = w.try(ctx, "Condition.Notify", func(ctx context.Context) error { return condition.Notify(ctx, 1) })
		} else {
			// Wait acquires the lock again before it returns, for 5 s at most
			out, err = w.do(ctx, "Condition.Wait", orAbandoned(condition.Wait))
			if out == unknown {
				condition.Release(ctx) // it may be held
			}
			if out != done && !onlyContext(err) {
				return fatal(out, err) // it is not held
			}
			err = nil
		}
		if err != nil {
			return err
		}
		return w.try(ctx, "Condition.Release", condition.Release)
	}}
}

// onlyContext reports whether an error is a context's, and nothing besides.
func onlyContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && err.Error() == context.DeadlineExceeded.Error() ||
		errors.Is(err, context.Canceled) && err.Error() == context.Canceled.Error()
}

// keeperRound lets two processes use the objects of a manager in a hurry.
func keeperRound(s *soak, ctx context.Context, r *rand.Rand) error {
	h := s.hurry("keeper", keeperKind, userKind)
	m, err := fiber.NewManager(ctx, fiber.WithName(keeperKind))
	if err != nil {
		return h.excuse(err)
	}
	defer m.Close()
	o, err := newShelf(ctx, m, 20*r.IntN(2))
	if err != nil {
		return h.excuse(err)
	}
	if err := o.Dict.Set(ctx, holder, 0); err != nil {
		return h.excuse(err)
	}
	h.home = func() { m.Close() }
	w := h.watch()
	if !h.run(ctx, w, errand{Shelf: &o}, errand{Shelf: &o}, r) {
		return h.settle(w)
	}
	h.empty(ctx, w, "a manager's Queue", o.Queue, r)
	h.empty(ctx, w, "a manager's JoinableQueue", joinable{o.Joinable}, r)
	h.finally(ctx, w, join, func(ctx context.Context) error { return o.Joinable.Join(ctx) })
	h.finally(ctx, w, "Lock.Acquire", func(ctx context.Context) error { return o.Lock.Acquire(ctx) })
	h.finally(ctx, w, "Condition.Acquire", func(ctx context.Context) error { return o.Condition.Acquire(ctx) })
	for range permits {
		h.finally(ctx, w, "Semaphore.Acquire", func(ctx context.Context) error { return o.Semaphore.Acquire(ctx) })
	}
	h.finally(ctx, w, "Call", func(ctx context.Context) error {
		n, err := fiber.Call(ctx, o.Counter, add, 0)
		known := ledger{}
		known.add(h.known)
		known.add(w.peek().Ledger)
		p := known[calls]
		if err == nil && (n < len(p.Acked) || n > len(p.Acked)+len(p.Unknown)+len(p.Never)) && !h.killed() {
			w.wrong("%d calls are done, %d have returned, %d unknown and %d ended by their contexts", n, len(p.Acked), len(p.Unknown), len(p.Never))
		}
		return err
	})
	return h.settle(w)
}
