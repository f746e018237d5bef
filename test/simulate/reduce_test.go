package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
)

// joined returns two runs of numbers as one.
var joined = fiber.Register("joined", func(ctx context.Context, pair [2]*fiber.Shared[[]int]) (*fiber.Shared[[]int], error) {
	a, err := pair[0].Get(ctx)
	if err != nil {
		return nil, err
	}
	b, err := pair[1].Get(ctx)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || len(a) < len(b) {
		return nil, fmt.Errorf("%v are combined with %v", a, b)
	}
	time.Sleep(time.Duration(a[0]%7) * time.Millisecond)
	return fiber.Share(ctx, slices.Concat(a, b))
})

var ruleReduced = rule("reduced")

// reduce joins numbers in the pool.
func (p *poolWork) reduce(ctx context.Context, r *rand.Rand) {
	var xs []*fiber.Shared[[]int]
	defer func() {
		for _, x := range xs {
			x.Close()
		}
	}()
	var want []int
	for i := range 1 + r.IntN(12) {
		x, err := fiber.Share(ctx, []int{i})
		if err != nil {
			p.checkError("Share", err)
			return
		}
		xs, want = append(xs, x), append(want, i)
	}
	var told atomic.Int64
	var got []int
	err := p.ends(ctx, "Reduce", func(ctx context.Context) error {
		out, err := fiber.Reduce(ctx, p.pool, joined, xs, fiber.OnProgress(func(now fiber.Progress) { told.Store(int64(now.Done)) }))
		if err != nil {
			return err
		}
		if all := int64(len(xs) - 1); told.Load() != all {
			p.breach(ruleProgress, "%d are combined, of %d", told.Load(), all)
		}
		got, err = out.Get(ctx)
		return err
	})
	p.checkError("Reduce", err)
	if err == nil && !slices.Equal(got, want) {
		p.breach(ruleReduced, "%v instead of %v", got, want)
	}
	if err == nil && len(xs) > 1 {
		p.bit(ruleReduced)
	}
}
