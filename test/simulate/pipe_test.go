package simulate

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// end is an end of a pipe on its way.
type end struct {
	Sender   *fiber.Sender[int]
	Receiver *fiber.Receiver[int]
}

// hop is who passes ends on.
type hop struct {
	Ends *fiber.SimpleQueue[end]
	Book int
	Seed uint64
	N    int // how many messages there are
}

// pipeBook notes what went into a pipe, and what came out.
type pipeBook struct {
	mu    sync.Mutex
	next  int          // the next message
	sent  map[int]bool // what Send has sent for sure
	stays map[int]bool // what it has not
	got   []int
	over  bool // an end is gone
	whole bool // the receiver has read everything
	hops  int  // how often an end has moved

	enough atomic.Bool // nobody is to go on
}

var passOn = fiber.Register("passOn", func(ctx context.Context, h hop) (int, error) {
	return 0, passEnds(ctx, h)
})

// passEnds takes an end of the pipe, uses it a few times, and passes it on.
func passEnds(ctx context.Context, h hop) error {
	w, b := here(), bookOf[*pipeBook](h.Book)
	r := rand.New(rand.NewPCG(h.Seed, 1))
	for lost := 0; sim.Here().Alive() && ctx.Err() == nil && lost < 50 && !b.enough.Load(); {
		within, cancel := context.WithTimeout(ctx, time.Second)
		e, err := h.Ends.Get(within)
		cancel()
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case errors.Is(err, fiber.ErrClosed):
			return nil
		default:
			w.checkError("Get of an end", err)
			if !errors.As(err, new(*fiber.WorkerLostError)) {
				return nil
			}
			lost++
			time.Sleep(10 * time.Millisecond)
			continue
		}
		over := false
		for n := r.IntN([]int{30, 30, 600}[r.IntN(3)]); n > 0 && !over; n-- {
			if e.Sender != nil {
				over = b.send(ctx, w, r, h, e.Sender)
			} else {
				over = b.receive(ctx, w, r, e.Receiver)
			}
		}
		b.mu.Lock()
		if sim.Here().Alive() {
			b.hops++
			b.over = b.over || over
		}
		over = b.over
		b.mu.Unlock()
		// Nobody takes over an end whose Put has failed: the pipe has ended.
		if err := h.Ends.Put(ctx, e); err != nil {
			w.checkError("Put of an end", err)
			if e.Sender != nil {
				w.checkError("Close", e.Sender.Close())
			} else {
				w.checkError("Close", e.Receiver.Close())
			}
		}
		if over {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func (b *pipeBook) send(ctx context.Context, w *world, r *rand.Rand, h hop, s *fiber.Sender[int]) (over bool) {
	b.mu.Lock()
	n := b.next
	if sim.Here().Alive() {
		b.next++
	}
	b.mu.Unlock()
	if n >= h.N {
		w.checkError("Close", s.Close())
		return true
	}
	err := w.within(bounded(ctx), r, settling, "Send", func(ctx context.Context) error { return s.Send(ctx, n) })
	w.checkError("Send", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if sim.Here().Alive() {
		if err == nil {
			b.sent[n] = true
		} else if err == context.DeadlineExceeded {
			b.stays[n] = true
		}
	}
	return errors.Is(err, fiber.ErrClosed)
}

func (b *pipeBook) receive(ctx context.Context, w *world, r *rand.Rand, from *fiber.Receiver[int]) (over bool) {
	n, ok := 0, true
	err := w.within(bounded(ctx), r, settling, "Recv", func(ctx context.Context) (err error) {
		if r.IntN(4) == 0 {
			n, ok, err = from.TryRecv(ctx)
		} else {
			n, err = from.Recv(ctx)
		}
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !sim.Here().Alive():
	case err == nil && ok:
		b.got = append(b.got, n)
	case err == nil: // nothing has come
	case err == io.EOF:
		b.whole = true
		return true
	default:
		w.checkError("Recv", err)
	}
	return errors.Is(err, fiber.ErrClosed)
}

var (
	rulePipeOrder = rule("pipe order")
	rulePipeWhole = rule("pipe whole")
)

func init() {
	works["pipe"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		receiver, sender, err := fiber.PipeOneWay[int]()
		if err != nil {
			return err
		}
		ends, err := fiber.NewSimpleQueue[end]()
		if err != nil {
			return err
		}
		if w.lodger != nil {
			q, err := fiber.NewQueue[end](ctx, w.lodger)
			if err != nil {
				w.checkError("NewQueue", err)
				return nil
			}
			ends = &q.SimpleQueue
		}
		b := &pipeBook{sent: map[int]bool{}, stays: map[int]bool{}}
		h := hop{Ends: ends, Book: w.book(b), N: 20 + w.amount(r, 600, 100_000)}
		for _, e := range []end{{Sender: sender}, {Receiver: receiver}} {
			if err := ends.Put(ctx, e); err != nil {
				w.checkError("Put of an end", err)
				return nil
			}
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		died := 0
		if w.lodger != nil {
			h := h
			h.Seed = r.Uint64()
			group.Go(func() { _ = passEnds(ctx, h) })
		}
		for range 1 + r.IntN(4) {
			h := h
			h.Seed = r.Uint64()
			group.Go(func() {
				p, err := start(ctx, passOn, h)
				if err == nil {
					err = p.Join(ctx)
				}
				w.checkError("Join", err)
				if err != nil {
					mu.Lock()
					died++
					mu.Unlock()
				}
			})
		}
		const step = 500 * time.Millisecond
		// Until both ends are through, or nothing goes on.
		for last, idle := -1, time.Duration(0); idle < forever; {
			time.Sleep(step)
			b.mu.Lock()
			now := b.hops + b.next + len(b.got)
			through := b.over && b.whole
			b.mu.Unlock()
			if idle += step; now != last {
				last, idle = now, 0
			}
			if through {
				break
			}
		}
		b.enough.Store(true)
		w.checkError("Close", ends.Close())
		group.Wait()
		b.check(w, died)
		return nil
	}
}

func (b *pipeBook) check(w *world, died int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := map[int]bool{}
	last := -1
	for _, n := range b.got {
		if n <= last {
			w.breach(rulePipeOrder, "%d came after %d", n, last)
		}
		if b.stays[n] {
			w.breach(rulePipeOrder, "%d came, though its Send has failed", n)
		}
		got[n], last = true, n
	}
	if len(b.got) > 20 {
		w.bit(rulePipeOrder)
	}
	if died > 0 || !w.steady() {
		return
	}
	if b.over && !b.whole && w.harmed() == 0 {
		w.breach(ruleEnds, "one end is closed, and the other one has not heard of that after %d moves", b.hops)
	}
	for n := range b.sent {
		if !got[n] && (n < last || b.whole) {
			w.breach(rulePipeWhole, "%d was sent and has not come; the last was %d", n, last)
			return
		}
	}
	if b.whole {
		w.bit(rulePipeWhole)
	}
}
