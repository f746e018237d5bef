package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// meeting is where processes wait without a deadline, for one that ends or for what the root does.
type meeting struct {
	Lock    *fiber.Lock // one of these
	Barrier *fiber.CyclicBarrier
	Event   *fiber.Event
	Cond    *fiber.Condition
	Book    int
	First   bool // it ends where it holds the lock, or waits at the barrier
	Expires bool // it gives its Wait up instead
}

// meetingBook says how far they are.
type meetingBook struct {
	there, gone     atomic.Bool  // the first one
	told            atomic.Bool  // somebody of its death
	waiting, inside atomic.Int32 // the others: at the event or the condition, with the lock
}

var (
	ruleDeaths = rule("deaths")
	ruleWakes  = rule("wakes")
)

// wait waits as all of them do.
func (m meeting) wait(ctx context.Context, b *meetingBook) (err error) {
	switch {
	case m.Lock != nil:
		return m.Lock.Acquire(ctx)
	case m.Barrier != nil:
		_, err = m.Barrier.Wait(ctx)
	case m.Event != nil:
		b.waiting.Add(1)
		err = m.Event.Wait(ctx)
	default:
		if err = m.Cond.Acquire(ctx); err == nil {
			b.waiting.Add(1)
			err = m.Cond.Wait(ctx)
		}
		if err == nil {
			err = m.Cond.Release(ctx)
		}
	}
	return err
}

var meet = fiber.Register("meet", func(ctx context.Context, m meeting) (int, error) {
	w, b := here(), bookOf[*meetingBook](m.Book)
	if m.First {
		within, giveUp := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			if err := m.wait(within, b); err == nil {
				b.there.Store(sim.Here().Alive())
			}
		}()
		for n := 0; n < 1000 && !b.there.Load(); n++ {
			if time.Sleep(time.Millisecond); m.Barrier != nil {
				n, err := m.Barrier.Waiting(ctx)
				b.there.Store(err == nil && n > 0 && sim.Here().Alive())
			}
		}
		if !m.Expires {
			sim.Here().Kill()
		}
		giveUp()
		<-over
		return 0, nil
	}
	for m.Lock != nil || m.Barrier != nil {
		if b.there.Load() {
			break
		}
		if time.Sleep(time.Millisecond); b.gone.Load() || !sim.Here().Alive() {
			return 0, nil
		}
	}
	err := w.ends(ctx, "a wait for others", func(ctx context.Context) error { return m.wait(ctx, b) })
	w.checkError("a wait for others", err)
	switch told := errors.Is(err, fiber.ErrAbandoned) || errors.Is(err, fiber.ErrBrokenBarrier); {
	case told:
		b.told.Store(true)
		w.bit(ruleDeaths)
	case err == nil && (m.Barrier != nil || m.Lock != nil && !b.told.Load()) && w.steady():
		w.breach(ruleDeaths, "%s was not told", sim.Here().Name)
	case err == nil:
		w.bit(ruleWakes)
	}
	if m.Lock != nil && (err == nil || errors.Is(err, fiber.ErrAbandoned)) {
		if n := b.inside.Add(1); n > 1 && w.steady() && sim.Here().Alive() {
			w.breach(ruleExclusive, "%d have the lock of one that has died", n)
		}
		time.Sleep(20 * time.Millisecond)
		b.inside.Add(-1)
		w.givesBack("Release", m.Lock.Release(ctx))
	}
	return 0, nil
})

// meetings is the work of some runs, besides others.
const meetings = "meetings"

// others are how many wait for the first one, or for the root.
const others = 2

func init() {
	works[meetings] = func(ctx context.Context, w *world, r *rand.Rand) error {
		m, end, err := w.home(ctx, r)
		if err != nil {
			w.checkError("NewManager", err)
			return nil
		}
		defer end()
		b := new(meetingBook)
		v := meeting{Book: w.book(b)}
		var wake func(context.Context) error
		switch r.IntN(4) {
		case 0:
			v.Lock, err = fiber.NewLock(ctx, m)
		case 1:
			v.Expires = r.IntN(2) == 0
			v.Barrier, err = fiber.NewBarrier(ctx, m, others+2)
		case 2:
			if v.Event, err = fiber.NewEvent(ctx, m); err == nil {
				wake = v.Event.Set
			}
		case 3:
			v.Cond, err = fiber.NewCondition(ctx, m, nil)
			wake = func(ctx context.Context) error {
				err := v.Cond.Acquire(ctx)
				if err == nil || errors.Is(err, fiber.ErrAbandoned) {
					err = errors.Join(v.Cond.NotifyAll(ctx), v.Cond.Release(ctx))
				}
				return err
			}
		}
		if err != nil {
			w.checkError("making what they meet at", err)
			return nil
		}
		var group sync.WaitGroup
		var left atomic.Int32 // of the others
		left.Store(others)
		run := func(v meeting, then func()) {
			group.Go(func() {
				defer then()
				p, err := start(ctx, meet, v)
				if err == nil {
					err = w.ends(ctx, "Join", p.Join)
				}
				w.checkError("Join", err)
			})
		}
		for range others {
			run(v, func() { left.Add(-1) })
		}
		if wake == nil {
			v.First = true
			run(v, func() { b.gone.Store(true) })
		}
		for wake != nil && left.Load() > 0 { // again for a condition: somebody may begin to sleep only now
			time.Sleep(time.Duration(1+r.IntN(100)) * time.Millisecond)
			if b.waiting.Load() >= left.Load() {
				if w.givesBack("waking who waits", w.ends(ctx, "waking who waits", wake)); v.Event != nil {
					break
				}
			}
		}
		group.Wait()
		return nil
	}
}
