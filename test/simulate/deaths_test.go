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

// meeting is where a process dies, and another one waits for it.
type meeting struct {
	Lock    *fiber.Lock          // which the process holds that dies
	Barrier *fiber.CyclicBarrier // or at which it waits
	Book    int
	Dies    bool
}

// deathBook says how far the process is that dies.
type deathBook struct{ there, gone atomic.Bool }

var ruleDeaths = rule("deaths")

var meet = fiber.Register("meet", func(ctx context.Context, m meeting) (int, error) {
	w, b := here(), bookOf[*deathBook](m.Book)
	wait := func(ctx context.Context) (err error) {
		if m.Lock != nil {
			return m.Lock.Acquire(ctx)
		}
		_, err = m.Barrier.Wait(ctx)
		return err
	}
	if m.Dies {
		there := func() bool { return b.there.Load() }
		go func() {
			if err := wait(ctx); err == nil {
				b.there.Store(sim.Here().Alive())
			}
		}()
		if m.Barrier != nil {
			there = func() bool {
				n, err := m.Barrier.Waiting(ctx)
				b.there.Store(err == nil && n > 0 && sim.Here().Alive())
				return b.there.Load()
			}
		}
		for n := 0; n < 1000 && !there(); n++ {
			time.Sleep(time.Millisecond)
		}
		sim.Here().Kill()
		return 0, nil
	}
	for !b.there.Load() {
		if time.Sleep(time.Millisecond); b.gone.Load() || !sim.Here().Alive() {
			return 0, nil
		}
	}
	err := w.ends(ctx, "a wait for a process that dies", wait)
	w.checkError("a wait for a process that dies", err)
	switch {
	case errors.Is(err, fiber.ErrAbandoned), errors.Is(err, fiber.ErrBrokenBarrier):
		w.bit(ruleDeaths)
	case err == nil && w.steady():
		w.breach(ruleDeaths, "%s was not told of a death", sim.Here().Name)
	}
	return 0, nil
})

// deaths is the work of some runs, besides others.
const deaths = "deaths"

func init() {
	works[deaths] = func(ctx context.Context, w *world, r *rand.Rand) error {
		m, end, err := w.home(ctx, r)
		if err != nil {
			w.checkError("NewManager", err)
			return nil
		}
		defer end()
		b := new(deathBook)
		v := meeting{Book: w.book(b)}
		if r.IntN(2) == 0 {
			v.Lock, err = fiber.NewLock(ctx, m)
		} else {
			v.Barrier, err = fiber.NewBarrier(ctx, m, 3)
		}
		if err != nil {
			w.checkError("making what they meet at", err)
			return nil
		}
		var group sync.WaitGroup
		for _, dies := range []bool{true, false} {
			v := v
			v.Dies = dies
			group.Go(func() {
				p, err := start(ctx, meet, v)
				if err == nil {
					err = w.ends(ctx, "Join", p.Join)
				}
				if w.checkError("Join", err); dies {
					b.gone.Store(true)
				}
			})
		}
		group.Wait()
		return nil
	}
}
