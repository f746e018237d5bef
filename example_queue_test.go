package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// wordLengths has a queue of words and one for their lengths.
type wordLengths struct {
	Words   *fiber.SimpleQueue[string]
	Lengths *fiber.SimpleQueue[int]
}

// measure answers each word with its length, until the queue of words is closed.
var measure = fiber.Register("measure", func(ctx context.Context, l wordLengths) (struct{}, error) {
	for word, err := range l.Words.Items(ctx) {
		if err != nil {
			return struct{}{}, err
		}
		if err := l.Lengths.Put(ctx, len(word)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

func ExampleSimpleQueue() {
	ctx := context.Background()
	words, err := fiber.NewSimpleQueue[string]()
	if err != nil {
		fmt.Println(err)
		return
	}
	lengths, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(measure, wordLengths{words, lengths})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"one", "three", "eleven"} {
		if err := words.Put(ctx, word); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lengths.Get(ctx))
	}
	words.Close() // the loop in the other process ends
	fmt.Println(p.Join(ctx))
	// Output:
	// 3 <nil>
	// 5 <nil>
	// 6 <nil>
	// <nil>
}

// addUp takes all items there are at a time, 1000 at most. GetMany waits while
// there is none.
var addUp = fiber.Register("addUp", func(ctx context.Context, numbers *fiber.SimpleQueue[int]) (sum int, err error) {
	for got := 0; got < 10_000; {
		some, err := numbers.GetMany(ctx, 1000)
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

// Many small items travel together, which costs much less than one by one.
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

// greetAll takes names until an empty one comes.
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

// A Queue lives in its manager, and so outlives the process that made it.
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

// assemble makes what is ordered, until its process is killed.
var assemble = fiber.Register("assemble", func(ctx context.Context, w workshop) (struct{}, error) {
	for {
		n, err := w.Orders.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if _, err := w.Made.Update(ctx, func(made int) (int, error) { return made + n, nil }); err != nil {
			return struct{}{}, err
		}
		if err := w.Orders.TaskDone(ctx); err != nil {
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

	var w workshop
	if w.Orders, err = fiber.NewJoinableQueue[int](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if w.Made, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		p := fiber.NewProcess(assemble, w)
		if err := p.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		defer p.Kill()
	}
	if err := w.Orders.PutMany(ctx, []int{1, 2, 3, 4}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Orders.Join(ctx)) // returns when all orders are done
	fmt.Println(w.Made.Get(ctx))
	// Output:
	// <nil>
	// 10 <nil>
}
