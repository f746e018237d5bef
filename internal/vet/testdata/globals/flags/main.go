// Command flags parses its flags in every process.
package main

import (
	"context"
	"flag"

	"github.com/fiber-go/fiber"
)

var samples = flag.Int("samples", 1, "")

var count = fiber.Register("count", func(ctx context.Context, x int) (int, error) { return *samples + x, nil })

func main() {
	flag.Parse()
	if err := fiber.Init(); err != nil {
		panic(err)
	}
	flag.Parse()
}
