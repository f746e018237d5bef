package simulate

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// share is a shared value for a process.
type share struct {
	Value  *fiber.Shared[[]byte]
	Closed int // its book: when it was closed
	Size   int
	Seed   uint64
}

// closing is when a value was closed.
type closing struct {
	mu sync.Mutex
	at time.Time
}

var fetch = fiber.Register("fetch", func(ctx context.Context, s share) (int, error) {
	return 0, fetchShared(ctx, s)
})

var ruleShared = rule("shared values")

// fetchShared gets the value again and again.
func fetchShared(ctx context.Context, s share) error {
	w, c := here(), bookOf[*closing](s.Closed)
	r := rand.New(rand.NewPCG(s.Seed, 1))
	for range 1 + r.IntN(10) {
		if !sim.Here().Alive() {
			return nil
		}
		begun := time.Now()
		var v []byte
		err := w.within(ctx, r, 0, "Get of a shared value", func(ctx context.Context) (err error) {
			v, err = s.Value.Get(ctx)
			return err
		})
		w.checkError("Get of a shared value", err)
		c.mu.Lock()
		at := c.at
		c.mu.Unlock()
		switch {
		case err == nil:
			if len(v) != s.Size || s.Size > 0 && v[s.Size-1] != 7 {
				w.breach(ruleShared, "%d bytes instead of %d", len(v), s.Size)
			}
			if len(v) > 0 { // what a process writes is seen by no other one
				mine := byte(8 + sim.Here().PID()%200)
				if v[0] != 7 && v[0] != mine {
					w.breach(ruleShared, "another process has changed the value, to %d", v[0])
				}
				if !racing {
					v[0] = mine
				}
			}
			w.bit(ruleShared)
		case errors.Is(err, fiber.ErrClosed):
			if at.IsZero() || begun.After(at) && at.After(time.Now()) {
				w.breach(ruleShared, "%v, though nobody has closed it", err)
			}
			return nil
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	return nil
}

// offer is a value that a process shares, and how.
type offer struct {
	Value *fiber.Shared[[]byte]
	To    *fiber.SimpleQueue[offer]
	Safe  bool // in two copies
	Size  int
	Stays time.Duration // how long the process goes on
	Seed  uint64
}

// offering shares a value, offers it, and ends.
var offering = fiber.Register("offering", func(ctx context.Context, o offer) (int, error) {
	w := here()
	copies := 1
	if o.Safe {
		copies = 2
	}
	var v *fiber.Shared[[]byte]
	err := w.within(ctx, rand.New(rand.NewPCG(o.Seed, 2)), 0, "Share", func(ctx context.Context) (err error) {
		v, err = fiber.Share(ctx, bytes.Repeat([]byte{7}, o.Size), fiber.WithCopies(copies))
		return err
	})
	if w.checkError("Share", err); err != nil {
		return 0, err
	}
	o.Value = v
	err = o.To.Put(ctx, o)
	w.checkError("Put", err)
	time.Sleep(o.Stays)
	return 0, nil
})

var ruleMoved = rule("moved")

// outlives checks that values outlive the processes that have shared them, if these have ended in order, or have put a copy
// elsewhere.
func outlives(ctx context.Context, w *world, r *rand.Rand, number int) error {
	to, err := fiber.NewSimpleQueue[offer]()
	if err != nil {
		return err
	}
	defer to.Close()
	o := offer{To: to, Safe: r.IntN(2) == 0, Size: []int{1, 10_000, 300_000}[r.IntN(3)], Stays: time.Duration(r.IntN(200)) * time.Millisecond, Seed: r.Uint64()}
	w.load.Add(int64(o.Size))
	p, err := start(ctx, offering, o)
	if err != nil {
		return err
	}
	joined := p.Join(ctx)
	w.checkError("Join", joined)
	o, there, err := to.TryGet(ctx)
	if err != nil || !there {
		return err
	}
	defer o.Value.Close()
	if r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.IntN(40)) * time.Second) // longer than a name without holders lasts
	}
	v, err := o.Value.Get(ctx)
	w.checkError("Get of a shared value", err)
	switch {
	case err == nil && len(v) != o.Size:
		w.breach(ruleMoved, "%d bytes instead of %d", len(v), o.Size)
	case err == nil:
		w.bit(ruleMoved)
	case o.Safe || joined == nil && w.harmed() == 0:
		w.breach(ruleMoved, "a value is lost, though its maker's end is %v, and it has two copies: %t: %v", joined, o.Safe, err)
	}
	p, err = start(ctx, fetch, share{o.Value, number, o.Size, r.Uint64()})
	if err == nil {
		err = p.Join(ctx)
	}
	w.checkError("Join", err)
	return nil
}

func init() {
	works["share"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		size := []int{0, 10, 1000, 300_000, 3_000_000}[r.IntN(5)]
		w.load.Add(int64(size))
		v := make([]byte, size)
		for i := range v {
			v[i] = 7
		}
		s, err := fiber.Share(ctx, v)
		if err != nil {
			return err
		}
		c := new(closing)
		number := w.book(c)
		var group sync.WaitGroup
		fetches := func(seed uint64) {
			group.Go(func() {
				p, err := start(ctx, fetch, share{s, number, size, seed})
				if err == nil {
					err = p.Join(ctx)
				}
				w.checkError("Join", err)
			})
		}
		for range 1 + r.IntN(4) {
			fetches(r.Uint64())
		}
		for i := range uint64(number % 4 * 2) { // more than its home sends a large value to
			fetches(uint64(number) + i)
		}
		if number%2 == 1 {
			for i := range uint64(3) {
				group.Go(func() { w.checkError("Share", outlives(ctx, w, rand.New(rand.NewPCG(uint64(number), 11+i)), number)) })
			}
		}
		if err := fetchShared(ctx, share{s, number, size, r.Uint64()}); err != nil {
			return err
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
			c.mu.Lock()
			c.at = time.Now()
			c.mu.Unlock()
			s.Close()
		}
		group.Wait()
		s.Close()
		return nil
	}
}
