package fiber_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/fiber-go/fiber"
)

// vocabulary belongs to the process: each worker fills its own.
var vocabulary map[string]string

var learn = fiber.Register("learn", func(ctx context.Context, pairs string) (struct{}, error) {
	vocabulary = map[string]string{}
	for pair := range strings.FieldsSeq(pairs) {
		from, to, _ := strings.Cut(pair, "=")
		vocabulary[from] = to
	}
	return struct{}{}, nil
})

var translate = fiber.Register("translate", func(ctx context.Context, word string) (string, error) {
	return vocabulary[word], nil
})

// The initializer runs once in each worker, before its first task.
func ExampleWithInitializer() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2, fiber.WithInitializer(learn, "eins=one zwei=two drei=three"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	words, err := fiber.Map(ctx, pool, translate, []string{"drei", "zwei", "eins"})
	fmt.Println(words, err)
	fmt.Println(len(vocabulary), "words are known here")
	// Output:
	// [three two one] <nil>
	// 0 words are known here
}
