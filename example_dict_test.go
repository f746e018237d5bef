package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// tally counts a word. Update needs no lock, however many processes count.
var tally = fiber.Register("tally", func(ctx context.Context, w tallied) (int, error) {
	return w.Counts.Update(ctx, w.Word, func(n int, _ bool) (int, error) { return n + 1, nil })
})

type tallied struct {
	Counts *fiber.Dict[string, int]
	Word   string
}

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
