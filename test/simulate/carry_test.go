package simulate

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// errand is a task that makes a pipe and returns its receiver, or is given a sender; it sends so many numbers.
type errand struct {
	Sender *fiber.Sender[int]
	N      int
}

var carry = fiber.Register("carry", func(ctx context.Context, e errand) (end, error) {
	w, s, back := here(), e.Sender, end{}
	if s == nil {
		var err error
		if back.Receiver, s, err = fiber.PipeOneWay[int](); err != nil {
			return end{}, err
		}
	}
	send := func(ctx context.Context) {
		for n := range e.N {
			if err := w.ends(bounded(ctx), "Send", func(ctx context.Context) error { return s.Send(ctx, n) }); err != nil {
				w.checkError("Send", err)
				break
			}
		}
		w.checkError("Close", s.Close())
	}
	if e.Sender != nil {
		send(ctx)
	} else {
		go send(context.WithoutCancel(ctx)) // while the other end travels, and the task ends
	}
	return back, nil
})

// carrying is the work of some runs, besides others.
const carrying = "carry"

func init() {
	works[carrying] = func(ctx context.Context, w *world, r *rand.Rand) error {
		pool, err := fiber.NewPool(1+r.IntN(3), fiber.WithMaxAttempts(1))
		if err != nil {
			return err
		}
		defer pool.Terminate()
		for range 1 + r.IntN(4) {
			e := errand{N: w.amount(r, 400, 400)}
			from := end{}
			if r.IntN(2) == 0 {
				if from.Receiver, e.Sender, err = fiber.PipeOneWay[int](); err != nil {
					return err
				}
				go func() {
					_, err := fiber.Apply(ctx, pool, carry, e)
					w.checkError("Apply", err)
				}()
			} else if from, err = fiber.Apply(ctx, pool, carry, e); err != nil {
				w.checkError("Apply", err)
				continue
			}
			w.arrives(ctx, r, from.Receiver, e.N)
		}
		return nil
	}
}

// arrives receives all numbers, in their order, from an end that was carried here, or whose other end was carried away.
func (w *world) arrives(ctx context.Context, r *rand.Rand, from *fiber.Receiver[int], n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	next := 0
	for {
		var got int
		err := w.within(ctx, r, settling, "Recv", func(ctx context.Context) (err error) {
			got, err = from.Recv(ctx)
			return err
		})
		switch {
		case err == nil && got != next:
			w.breach(rulePipeOrder, "%d came instead of %d", got, next)
			return
		case err == nil:
			next++
		case err == io.EOF:
			if next < n && w.harmed() == 0 && sim.Here().Alive() {
				w.breach(rulePipeWhole, "%d of %d have come", next, n)
			}
			w.bit(rulePipeWhole)
			return
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			w.checkError("Recv", err)
			w.checkError("Close", from.Close())
			return
		}
	}
}
