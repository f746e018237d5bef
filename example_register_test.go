package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// box is how a function gets several arguments: only exported fields travel.
type box struct{ Width, Height, Depth int }

// Registered in a package variable, the function has the same name in every
// process of the program.
var volume = fiber.Register("volume", func(ctx context.Context, b box) (int, error) {
	return b.Width * b.Height * b.Depth, nil
}, meta.CPU(1), meta.Memory(500))

func ExampleRegister() {
	fmt.Println(volume.Name(), "needs", volume.Resources())

	// Call runs it here, without another process.
	here, err := volume.Call(context.Background(), box{2, 3, 4})
	fmt.Println(here, err)
	// Output:
	// volume needs cpu 1, memory 500 MiB
	// 24 <nil>
}
