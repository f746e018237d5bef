package fiber_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/fiber-go/fiber"
)

// answerLoudly answers until the other end is closed.
var answerLoudly = fiber.Register("answerLoudly", func(ctx context.Context, conn *fiber.Conn[string]) (struct{}, error) {
	for words, err := range conn.Items(ctx) {
		if err != nil {
			return struct{}{}, err
		}
		if err := conn.Send(ctx, strings.ToUpper(words)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

func ExamplePipe() {
	ctx := context.Background()
	ours, theirs, err := fiber.Pipe[string]()
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(answerLoudly, theirs)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, words := range []string{"hello", "is there anybody"} {
		if err := ours.Send(ctx, words); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ours.Recv(ctx))
	}
	ours.Close()
	fmt.Println(p.Join(ctx))
	// Output:
	// HELLO <nil>
	// IS THERE ANYBODY <nil>
	// <nil>
}

// When countDown returns, its process ends, and the pipe with it.
var countDown = fiber.Register("countDown", func(ctx context.Context, to *fiber.Sender[int]) (struct{}, error) {
	for n := 3; n > 0; n-- {
		if err := to.Send(ctx, n); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
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
		if err == io.EOF { // the sender's process has ended
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
