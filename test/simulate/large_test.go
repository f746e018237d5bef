package simulate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// large is a value that takes a while on a link, and more at a time than a connection queues.
type large struct {
	Value *fiber.Value[[]byte]
	Size  int
	Seed  uint64
}

var getLarge = fiber.Register("getLarge", func(ctx context.Context, l large) (int, error) {
	w := here()
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(l.Seed, uint64(g)))
			for range 2 {
				var v []byte
				err := w.within(ctx, r, 0, "Get of a large value", func(ctx context.Context) (err error) {
					v, err = l.Value.Get(ctx)
					return err
				})
				w.checkError("Get of a large value", err)
				if err == nil && (len(v) != l.Size || v[l.Size-1] != 7) {
					w.breach(ruleLarge, "%d bytes instead of %d", len(v), l.Size)
				}
				if w.bit(ruleLarge); !sim.Here().Alive() {
					return
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
		})
	}
	group.Wait()
	return 0, nil
})

var ruleLarge = rule("large values")

func init() {
	works["large"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		l := large{Size: 1 + r.IntN(4_000_000), Seed: r.Uint64()}
		v := make([]byte, l.Size)
		v[l.Size-1] = 7
		w.load.Add(int64(l.Size))
		m, end, err := w.home(ctx, r)
		if err == nil {
			defer end()
			l.Value, err = fiber.NewValue(ctx, m, v)
		}
		if err != nil {
			w.checkError("making a large value", err)
			return nil
		}
		p, err := start(ctx, getLarge, l)
		if err == nil {
			err = p.Join(ctx)
		}
		w.checkError("Join", err)
		return nil
	}
}
