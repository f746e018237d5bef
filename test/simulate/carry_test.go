package simulate

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// errand is a task that makes a pipe and returns its receiver, or is given a sender; it sends so many parcels.
type errand struct {
	Sender *fiber.Sender[parcel]
	N      int
	Size   int // of each parcel
	By     int // how many goroutines send so many, at the same time
	Hasty  bool
	Seed   uint64
}

type parcel struct {
	By, N int
	Pad   []byte
}

// brought is the other end.
type brought struct{ Receiver *fiber.Receiver[parcel] }

var carry = fiber.Register("carry", func(ctx context.Context, e errand) (brought, error) {
	w, s, back := here(), e.Sender, brought{}
	if s == nil {
		var err error
		if back.Receiver, s, err = fiber.PipeOneWay[parcel](); err != nil {
			return brought{}, err
		}
	}
	sendAll := func(ctx context.Context, by int) {
		r := rand.New(rand.NewPCG(e.Seed, uint64(by)))
		v := parcel{By: by, Pad: make([]byte, e.Size)}
		for v.N = range e.N {
			err := context.DeadlineExceeded
			for range 10 { // what was given up was not sent
				if e.Hasty && err == context.DeadlineExceeded {
					err = w.within(ctx, r, settling, "Send", func(ctx context.Context) error { return s.Send(ctx, v) })
				}
			}
			if err == context.DeadlineExceeded {
				err = w.ends(ctx, "Send", func(ctx context.Context) error { return s.Send(ctx, v) })
			}
			if w.checkError("Send", err); err != nil && !errors.Is(err, fiber.ErrUnknownOutcome) { // its rest leaves without the caller
				return
			}
		}
	}
	send := func(ctx context.Context) {
		var group sync.WaitGroup
		for by := range e.By {
			group.Go(func() { sendAll(ctx, by) })
		}
		group.Wait()
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
			e := errand{N: w.amount(r, 400, 400), By: 1 + r.IntN(5), Hasty: r.IntN(3) > 0, Seed: r.Uint64()}
			if r.IntN(2) == 0 { // few that fill the window
				e.N, e.Size, e.Hasty = min(e.N/10, 20), 200_000+r.IntN(500_000), true
				w.load.Add(int64(e.Size * e.By))
			}
			from := brought{}
			if r.IntN(2) == 0 {
				if from.Receiver, e.Sender, err = fiber.PipeOneWay[parcel](); err != nil {
					return err
				}
				go func() {
					if _, err := fiber.Apply(ctx, pool, carry, e); err != nil {
						w.checkError("Apply", err)
						w.checkError("Close", e.Sender.Close()) // unless a worker has it
					}
				}()
			} else if from, err = fiber.Apply(ctx, pool, carry, e); err != nil {
				w.checkError("Apply", err)
				continue
			}
			w.arrives(ctx, r, from.Receiver, e.By, e.N)
		}
		return nil
	}
}

// arrives receives all parcels, each sender's in their order, from an end that was carried here, or whose other end was carried away.
func (w *world) arrives(ctx context.Context, r *rand.Rand, from *fiber.Receiver[parcel], by, n int) {
	next, count := make([]int, by), 0
	for last := time.Now(); ; {
		var got parcel
		err := w.within(ctx, r, settling, "Recv", func(ctx context.Context) (err error) {
			got, err = from.Recv(ctx)
			return err
		})
		switch {
		case err == nil && (got.N < next[got.By] || got.N > next[got.By] && w.harmed() == 0):
			w.breach(rulePipeOrder, "%d came instead of %d", got.N, next[got.By])
			return
		case err == nil:
			next[got.By], last = got.N+1, time.Now()
			count++
		case err == io.EOF:
			if count < by*n && w.harmed() == 0 && sim.Here().Alive() {
				w.breach(rulePipeWhole, "%d of %d have come", count, by*n)
			}
			w.bit(rulePipeWhole)
			return
		case err == context.DeadlineExceeded && w.run.Since(last) < forever && ctx.Err() == nil:
		case err == context.DeadlineExceeded:
			w.breach(ruleEnds, "%d parcels of %d have come, and no other in %v", count, by*n, time.Since(last))
			w.checkError("Close", from.Close())
			return
		default:
			w.checkError("Recv", err)
			w.checkError("Close", from.Close())
			return
		}
	}
}
