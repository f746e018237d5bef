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
	Barrier *fiber.Barrier
	Event   *fiber.Event
	Cond    *fiber.Condition
	Book    int
	Seed    uint64
	First   bool // it ends where it holds the lock, or waits at the barrier
	Expires bool // it gives its Wait up instead
	Early   bool // or gives it up before anybody can know that it waits
}

// meetingBook says how far they are.
type meetingBook struct {
	there, gone     atomic.Bool  // the first one
	told            atomic.Bool  // somebody of its death
	waiting, inside atomic.Int32 // the others: at the event or the condition, with the lock
	passed, stayed  atomic.Bool  // the barrier: one of the others, the first one
}

var (
	ruleDeaths = rule("deaths")
	ruleWakes  = rule("wakes")
)

// wait waits as all of them do.
func (m meeting) wait(ctx context.Context, w *world, b *meetingBook) (err error) {
	switch {
	case m.Lock != nil:
		return w.ends(ctx, "Acquire", m.Lock.Acquire)
	case m.Barrier != nil:
		return w.ends(ctx, "Wait at a barrier", func(ctx context.Context) error {
			_, err := m.Barrier.Wait(ctx)
			return err
		})
	case m.Event != nil:
		b.waiting.Add(1)
		return w.ends(ctx, "Wait for an event", m.Event.Wait)
	}
	if err = w.ends(ctx, "Acquire", m.Cond.Acquire); err == nil {
		b.waiting.Add(1)
		err = w.ends(ctx, "Wait at a condition", m.Cond.Wait)
	}
	if err == nil {
		err = w.ends(ctx, "Release", m.Cond.Release)
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
			err := m.wait(within, w, b)
			if err == nil {
				b.there.Store(sim.Here().Alive())
			}
			b.stayed.Store(err == context.Canceled && sim.Here().Alive())
		}()
		if m.Early {
			b.there.Store(true)
			time.Sleep(time.Duration(m.Seed%1000) * time.Microsecond)
		}
		for n := 0; n < 1000 && !b.there.Load(); n++ {
			if time.Sleep(time.Millisecond); m.Barrier != nil {
				n, err := m.Barrier.Waiting(ctx)
				b.there.Store(err == nil && n > 0 && sim.Here().Alive())
			}
		}
		if !m.Expires && !m.Early {
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
	err := m.wait(ctx, w, b)
	w.checkError("a wait for others", err)
	if m.Barrier != nil && err == nil && sim.Here().Alive() {
		b.passed.Store(true)
	}
	switch told := errors.Is(err, fiber.ErrAbandoned) || errors.Is(err, fiber.ErrBrokenBarrier); {
	case told:
		b.told.Store(true)
		w.bit(ruleDeaths)
	case err == nil && (m.Barrier != nil && !m.Early || m.Lock != nil && !b.told.Load()) && w.steady():
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
			v.Expires, v.Early, v.Seed = r.IntN(2) == 0, r.IntN(2) == 0, r.Uint64()
			parties := others + 2
			if v.Early && r.IntN(2) == 0 { // all come, the first one perhaps
				parties--
			}
			v.Barrier, err = fiber.NewBarrier(ctx, m, parties)
		case 2:
			if v.Event, err = fiber.NewEvent(ctx, m); err == nil {
				wake = func(ctx context.Context) error { return w.ends(ctx, "Set", v.Event.Set) }
			}
		case 3:
			v.Cond, err = fiber.NewCondition(ctx, m, nil)
			wake = func(ctx context.Context) error {
				err := w.ends(ctx, "Acquire", v.Cond.Acquire)
				if err == nil || errors.Is(err, fiber.ErrAbandoned) {
					err = errors.Join(w.ends(ctx, "NotifyAll", v.Cond.NotifyAll), w.ends(ctx, "Release", v.Cond.Release))
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
				if w.givesBack("waking who waits", wake(ctx)); v.Event != nil {
					break
				}
			}
		}
		group.Wait()
		if b.passed.Load() && b.stayed.Load() {
			w.breach(ruleDeaths, "others have passed a barrier at which a Wait was given up")
		}
		return nil
	}
}
