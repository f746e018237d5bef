package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// hasty is a process some of whose Gets are given up while their items are on the way.
type hasty struct {
	Queue   *fiber.SimpleQueue[int]
	Book    int
	Seed    uint64
	Getters int  // at a time
	Goes    bool // it ends then; otherwise it takes the rest
	Alone   bool // no other one takes items
}

// hastyBook counts how often each item was taken.
type hastyBook struct {
	mu    sync.Mutex
	taken map[int]int
}

func (b *hastyBook) take(items ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range items {
		if sim.Here().Alive() {
			b.taken[i]++
		}
	}
}

var getHastily = fiber.Register("getHastily", func(ctx context.Context, h hasty) (int, error) {
	w, b := here(), bookOf[*hastyBook](h.Book)
	var group sync.WaitGroup
	for g := range h.Getters {
		group.Go(func() {
			r := rand.New(rand.NewPCG(h.Seed, uint64(g)))
			for range 1 + r.IntN(2) {
				within, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(3_000))*time.Microsecond)
				items, err := h.Queue.GetMany(within, 1+r.IntN(4))
				cancel()
				w.checkError("GetMany", err)
				b.take(items...)
			}
		})
	}
	group.Wait()
	for last := -1; !h.Goes; {
		var i int
		err := w.ends(ctx, "Get", func(ctx context.Context) (err error) {
			i, err = h.Queue.Get(ctx)
			return err
		})
		if err != nil {
			w.checkError("Get", err)
			return 0, nil
		}
		if h.Alone && i < last && w.steady() {
			w.breach(ruleOrder, "%d came after %d, behind Gets that have expired", i, last)
		}
		w.bit(ruleOrder)
		last = i
		b.take(i)
	}
	return 0, nil
})

// givingBack is the work of some runs, besides others.
const givingBack = "given back"

func init() {
	works[givingBack] = func(ctx context.Context, w *world, r *rand.Rand) error {
		h := hasty{Seed: r.Uint64(), Getters: 1 + r.IntN(20), Alone: r.IntN(2) == 0}
		b := &hastyBook{taken: map[int]int{}}
		h.Book = w.book(b)
		items := make([]int, 1+w.amount(r, 100, 1000))
		for i := range items {
			items[i] = i
		}
		m, end, err := w.home(ctx, r)
		if err == nil {
			defer end()
			var q *fiber.Queue[int]
			if q, err = fiber.NewQueue[int](ctx, m); err == nil {
				h.Queue = &q.SimpleQueue
				err = errors.Join(q.PutMany(ctx, items), q.Close())
			}
		}
		if err != nil {
			w.checkError("making a queue", err)
			return nil
		}
		var group sync.WaitGroup
		run := func(h hasty) {
			group.Go(func() {
				p, err := start(ctx, getHastily, h)
				if err == nil {
					err = w.ends(ctx, "Join", p.Join)
				}
				w.checkError("Join", err)
			})
		}
		run(h)
		if !h.Alone {
			h.Goes, h.Seed = true, r.Uint64()
			run(h)
		}
		group.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, i := range items {
			if n := b.taken[i]; n != 1 && w.harmed() == 0 {
				w.breach(ruleAcknowledged, "%d was taken %d times, some Gets have expired", i, n)
				break
			}
		}
		w.bit(ruleAcknowledged)
		return nil
	}
}
