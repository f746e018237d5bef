package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

// wordLengths is where words come from, and where their lengths go.
type wordLengths struct {
	Words   *fiber.SimpleQueue[string]
	Lengths *fiber.SimpleQueue[int]
}

var measure = fiber.Register("measure", func(ctx context.Context, l wordLengths) (struct{}, error) {
	for {
		word, err := l.Words.Get(ctx)
		if errors.Is(err, fiber.ErrClosed) {
			return struct{}{}, nil
		}
		if err != nil {
			return struct{}{}, err
		}
		if err := l.Lengths.Put(ctx, len(word)); err != nil {
			return struct{}{}, err
		}
	}
})

func ExampleSimpleQueue() {
	ctx := context.Background()
	words, err := fiber.NewSimpleQueue[string]()
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(measure, wordLengths{words, results})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "three", "eleven"} {
		if err := words.Put(ctx, word); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(results.Get(ctx))
	}
	words.Close() // whoever waits for one more word is told
	fmt.Println(p.Join(ctx))
	// Output:
	// 3 <nil>
	// 5 <nil>
	// 6 <nil>
	// <nil>
}

var addUp = fiber.Register("addUp", func(ctx context.Context, numbers *fiber.SimpleQueue[int]) (sum int, err error) {
	for got := 0; got < 10_000; {
		some, err := numbers.GetMany(ctx, 1000) // as many as there are, but at least one
		if err != nil {
			return 0, err
		}
		for _, n := range some {
			sum += n
		}
		got += len(some)
	}
	return sum, nil
})

// Many small items travel together.
func ExampleSimpleQueue_PutMany() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	queue, err := fiber.NewSimpleQueue[int](fiber.WithCapacity(2000)) // PutMany waits when it is full
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	sum := fiber.ApplyAsync(ctx, pool, addUp, queue)
	ones := make([]int, 10_000)
	for i := range ones {
		ones[i] = 1
	}
	if err := queue.PutMany(ctx, ones); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum.Get(ctx))
	// Output: 10000 <nil>
}

type greeter struct {
	Names     *fiber.Queue[string]
	Greetings *fiber.Queue[string]
}

var greetAll = fiber.Register("greetAll", func(ctx context.Context, g greeter) (struct{}, error) {
	for {
		name, err := g.Names.Get(ctx)
		if err != nil || name == "" {
			return struct{}{}, err
		}
		if err := g.Greetings.Put(ctx, "Hello, "+name); err != nil {
			return struct{}{}, err
		}
	}
})

// A Queue lives in its manager: it goes on when the process that made it has
// ended.
func ExampleQueue() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var g greeter
	if g.Names, err = fiber.NewQueue[string](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if g.Greetings, err = fiber.NewQueue[string](ctx, m, fiber.WithCapacity(10)); err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(greetAll, g)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := g.Names.PutMany(ctx, []string{"Ada", "Grace", ""}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Greetings.Get(ctx))
	fmt.Println(g.Greetings.Get(ctx))
	fmt.Println(p.Join(ctx))
	// Output:
	// Hello, Ada <nil>
	// Hello, Grace <nil>
	// <nil>
}

type workshop struct {
	Orders *fiber.JoinableQueue[int]
	Made   *fiber.Value[int]
}

// assemble makes what is ordered, for ever.
var assemble = fiber.Register("assemble", func(ctx context.Context, b workshop) (struct{}, error) {
	for {
		n, err := b.Orders.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if _, err := b.Made.Update(ctx, func(made int) (int, error) { return made + n, nil }); err != nil {
			return struct{}{}, err
		}
		if err := b.Orders.TaskDone(ctx); err != nil {
			return struct{}{}, err
		}
	}
})

func ExampleJoinableQueue() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var b workshop
	if b.Orders, err = fiber.NewJoinableQueue[int](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if b.Made, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		p := fiber.NewProcess(assemble, b)
		if err := p.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		defer p.Kill()
	}
	if err := b.Orders.PutMany(ctx, []int{1, 2, 3, 4}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Orders.Join(ctx)) // all are done
	fmt.Println(b.Made.Get(ctx))
	// Output:
	// <nil>
	// 10 <nil>
}
