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
