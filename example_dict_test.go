package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type tallied struct {
	Counts *fiber.Dict[string, int]
	Word   string
}

// tally counts a word. Update needs no lock, however many processes count.
var tally = fiber.Register("tally", func(ctx context.Context, w tallied) (int, error) {
	return w.Counts.Update(ctx, w.Word, func(n int, _ bool) (int, error) { return n + 1, nil })
})

func ExampleDict() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	counts, err := fiber.NewDict[string, int](ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	var words []tallied
	for _, w := range []string{"to", "be", "or", "not", "to", "be"} {
		words = append(words, tallied{counts, w})
	}
	if _, err := fiber.Map(ctx, pool, tally, words); err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range []string{"be", "not", "question"} {
		n, ok, err := counts.Get(ctx, w)
		fmt.Println(w, n, ok, err)
	}
	// Output:
	// be 2 true <nil>
	// not 1 true <nil>
	// question 0 false <nil>
}

type division struct {
	Number int
	Found  *fiber.List[int]
}

// divisors appends the divisors of a number to a list.
var divisors = fiber.Register("divisors", func(ctx context.Context, d division) (struct{}, error) {
	for i := 1; i <= d.Number; i++ {
		if d.Number%i != 0 {
			continue
		}
		if err := d.Found.Append(ctx, i); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

func ExampleList() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	found, err := fiber.NewList[int](ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(divisors, division{12, found})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Join(ctx); err != nil {
		fmt.Println(err)
		return
	}
	all, err := found.All(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, d := range all {
		fmt.Println(i, d)
	}
	_, err = found.Get(ctx, 6)
	fmt.Println(err)
	// Output:
	// 0 1
	// 1 2
	// 2 3
	// 3 4
	// 4 6
	// 5 12
	// fiber: the list: there is no index 6; the length is 6
}

// sample is a value from 0 to 1, and the histogram that counts it.
type sample struct {
	Histogram *fiber.Array[int]
	Value     float64
}

var countSample = fiber.Register("countSample", func(ctx context.Context, s sample) (int, error) {
	return s.Histogram.Update(ctx, int(s.Value*4), func(n int) (int, error) { return n + 1, nil })
})

func ExampleArray() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	histogram, err := fiber.NewArray(ctx, m, make([]int, 4))
	if err != nil {
		fmt.Println(err)
		return
	}
	var samples []sample
	for _, x := range []float64{0.1, 0.9, 0.3, 0.2, 0.8, 0.95} {
		samples = append(samples, sample{histogram, x})
	}
	if _, err := fiber.Map(ctx, pool, countSample, samples); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(histogram.Slice(ctx, 0, 4))
	// Output: [2 1 0 3] <nil>
}

type trial struct {
	Best  *fiber.Value[float64]
	Score float64
}

// reportScore keeps the best score of all processes.
var reportScore = fiber.Register("reportScore", func(ctx context.Context, t trial) (float64, error) {
	return t.Best.Update(ctx, func(best float64) (float64, error) { return max(best, t.Score), nil })
})

func ExampleValue() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	best, err := fiber.NewValue(ctx, m, 0.0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := fiber.Map(ctx, pool, reportScore, []trial{{best, 0.25}, {best, 0.75}, {best, 0.5}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(best.Get(ctx))
	// Output: 0.75 <nil>
}

// act follows a learner's weights until they are good enough. It misses those that are replaced while it works.
var act = fiber.Register("act", func(ctx context.Context, weights *fiber.Value[int]) (int, error) {
	for w, err := range weights.Watch(ctx) {
		if err != nil || w >= 10 {
			return w, err
		}
	}
	return 0, nil
})

func ExampleValue_Watch() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	weights, err := fiber.NewValue(ctx, m, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	actor := fiber.Go(ctx, act, weights)
	for w := range 10 {
		if err := weights.Set(ctx, w+1); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(actor.Get(ctx))
	// Output: 10 <nil>
}

func ExampleNamespace() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	settings, err := fiber.NewNamespace(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := settings.Set(ctx, "rate", 0.5); err != nil {
		fmt.Println(err)
		return
	}
	if err := settings.Set(ctx, "layers", []int{64, 10}); err != nil {
		fmt.Println(err)
		return
	}
	var rate float64
	var layers []int
	found, err := settings.Get(ctx, "rate", &rate)
	fmt.Println(rate, found, err)
	found, err = settings.Get(ctx, "layers", &layers)
	fmt.Println(layers, found, err)
	found, err = settings.Get(ctx, "seed", new(int))
	fmt.Println(found, err)
	// Output:
	// 0.5 true <nil>
	// [64 10] true <nil>
	// false <nil>
}
