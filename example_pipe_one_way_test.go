package fiber_test

import (
	"context"
	"fmt"
	"io"

	"github.com/fiber-go/fiber"
)

var countDown = fiber.Register("countDown", func(ctx context.Context, to *fiber.Sender[int]) (struct{}, error) {
	for n := 3; n > 0; n-- {
		if err := to.Send(ctx, n); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil // its process ends, and with it the pipe
})

func ExamplePipeOneWay() {
	ctx := context.Background()
	from, to, err := fiber.PipeOneWay[int]()
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(countDown, to)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for {
		n, err := from.Recv(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n)
	}
	fmt.Println(p.Join(ctx))
	// Output:
	// 3
	// 2
	// 1
	// <nil>
}
