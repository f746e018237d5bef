package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

// passOn has each rank send its rank to the right, and what comes from the left
// further, until everything has come around.
var passOn = fiber.RegisterRing("passOn", nil, func(ctx context.Context, node *fiber.RingNode, rounds int) error {
	number := node.Rank()
	sum := 0
	for range rounds * node.Size() {
		if err := node.Right().Send(ctx, number); err != nil {
			return err
		}
		if err := node.Left().Recv(ctx, &number); err != nil {
			return err
		}
		sum += number
	}
	if node.Rank() == 0 {
		fmt.Println("each of the", node.Size(), "ranks has seen", sum)
	}
	return nil
})

func ExampleRing() {
	ring := fiber.NewRing(4, passOn)
	fmt.Println(ring.Run(context.Background(), 2))
	// Output:
	// each of the 4 ranks has seen 12
	// <nil>
}

var unlucky = fiber.RegisterRing("unlucky", nil, func(ctx context.Context, node *fiber.RingNode, who int) error {
	if node.Rank() == who {
		return errors.New("out of luck")
	}
	return fiber.Barrier(ctx, node) // ends with the error of the other rank
})

// When one rank fails the others end, and Run says which one it was.
func ExampleRing_failure() {
	err := fiber.NewRing(3, unlucky).Run(context.Background(), 1)
	var failed *fiber.RingError
	var remote *fiber.RemoteError
	if errors.As(err, &failed) && errors.As(err, &remote) {
		fmt.Printf("rank %d: %s\n", failed.Rank, remote.Message)
	}
	// Output: rank 1: out of luck
}
