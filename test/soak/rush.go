package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fiber-go/fiber"
)

// rushRound runs tasks with short deadlines in the pool, beside others.
func rushRound(s *soak, ctx context.Context, r *rand.Rand) error {
	h := s.hurry("rush", workerKind)
	w := h.watch()
	right := func(out, n int) {
		if out != answer(n) {
			w.wrong("task %d returned %d", n, out)
		}
	}
	some := func(r *rand.Rand) chore {
		return chore{N: r.IntN(1e9), Nap: time.Duration(r.IntN(5000)) * time.Microsecond}
	}
	hands := []hand{
		hurried("who applies", func(ctx context.Context, r *rand.Rand) error {
			c := some(r)
			return w.try(ctx, "Apply", func(ctx context.Context) error {
				out, err := fiber.Apply(ctx, s.pool, choreFunc, c)
				if err == nil {
					right(out, c.N)
				}
				return err
			})
		}),
		{name: "who applies with futures", op: func(ctx context.Context, r *rand.Rand) error {
			c := some(r)
			life, cancel := soon(ctx, r)
			defer cancel()
			var f *fiber.Future[int]
			if err := w.try(life, "ApplyAsync", func(ctx context.Context) error { f = fiber.ApplyAsync(ctx, s.pool, choreFunc, c); return nil }); err != nil {
				return err
			}
			brief, cancel := soon(ctx, r)
			defer cancel()
			err := w.try(brief, "Future.Get, of a task", func(ctx context.Context) error {
				out, err := f.Get(ctx)
				if err == nil {
					right(out, c.N)
				}
				if err != nil && errors.Is(err, life.Err()) { // the task's own context
					return nil
				}
				return err
			})
			return err
		}},
		hurried("who maps", func(ctx context.Context, r *rand.Rand) error {
			ins, answers := someChores(r)
			return w.try(ctx, "Map", func(ctx context.Context) error {
				outs, err := fiber.Map(ctx, s.pool, choreFunc, ins)
				if err == nil && !slices.Equal(outs, answers) {
					w.wrong("Map returned %v", outs)
				}
				return err
			})
		}),
		hurried("who maps large values", func(ctx context.Context, r *rand.Rand) error {
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			ls := []load{newLoad(1, r), {2, filling()}}
			return w.try(ctx, "Map, 4 MiB", func(ctx context.Context) error {
				outs, err := fiber.Map(ctx, s.pool, weighFunc, ls)
				if err == nil && !slices.Equal(outs, []int{len(ls[0].Fill), large}) {
					w.wrong("Map returned %v", outs)
				}
				return err
			})
		}),
		hurried("who streams", func(ctx context.Context, r *rand.Rand) error {
			ins, answers := someChores(r)
			return w.try(ctx, "IMap", func(ctx context.Context) error {
				n := 0
				for out, err := range fiber.IMap(ctx, s.pool, choreFunc, slices.Values(ins)) {
					if err != nil {
						return err
					}
					if out != answers[n] {
						w.wrong("IMap yielded %d for task %d", out, n)
					}
					n++
				}
				return nil
			})
		}),
	}
	if s.plant == "deadline" {
		hands = append(hands, hurried("who ignores its context", func(ctx context.Context, _ *rand.Rand) error {
			return w.try(ctx, "a planted wait", func(ctx context.Context) error { <-w.overdue.Done(); return ctx.Err() })
		}))
	}
	busy := []hand{{name: "busy Map", op: func(ctx context.Context, r *rand.Rand) error {
		ins := make([]chore, chores)
		return w.try(ctx, "busy Map", func(ctx context.Context) error { _, err := fiber.Map(ctx, s.pool, choreFunc, ins); return err })
	}}}
	wait := w.work(ctx, time.Now().Add(time.Second+time.Duration(r.Int64N(int64(2*time.Second)))), r.Uint64(), hands, busy)
	wait()
	if lost := w.peek().Lost; lost != "" { // the pool makes up for what is killed
		w.wrong("%s", lost)
	}
	return h.settle(w)
}

// weighFunc returns how many bytes an item has.
var weighFunc = fiber.Register("weigh", func(_ context.Context, l load) (int, error) {
	if !l.whole() {
		return 0, fmt.Errorf("%w: %d bytes", errWrong, len(l.Fill))
	}
	return len(l.Fill), nil
})
