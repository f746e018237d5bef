package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

// passOn sends numbers around the ring. Each rank sends its own to the right, then
// passes on what comes from the left, until every number has come around.
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

// unlucky fails in one rank. The others wait in Barrier, which ends with the error
// of that rank.
var unlucky = fiber.RegisterRing("unlucky", nil, func(ctx context.Context, node *fiber.RingNode, who int) error {
	if node.Rank() == who {
		return errors.New("out of luck")
	}
	return node.Barrier(ctx)
})

// When one rank fails, the others end, and Run's error says which one failed.
func ExampleRing_failure() {
	err := fiber.NewRing(3, unlucky).Run(context.Background(), 1)
	var failed *fiber.RingError
	var remote *fiber.RemoteError
	if errors.As(err, &failed) && errors.As(err, &remote) {
		fmt.Printf("rank %d: %s\n", failed.Rank, remote.Message)
	}
	// Output: rank 1: out of luck
}

// approach minimises the sum of (x-t)² over all targets t, of which each rank
// knows one. AllReduce averages the gradients, so x stays the same in all ranks.
var approach = fiber.RegisterRing("approach", nil, func(ctx context.Context, node *fiber.RingNode, targets []float64) error {
	x := []float64{0}
	for range 50 {
		gradient := []float64{2 * (x[0] - targets[node.Rank()])}
		if err := fiber.AllReduce(ctx, node, gradient, fiber.Mean); err != nil {
			return err
		}
		x[0] -= 0.25 * gradient[0]
	}
	if node.Rank() == 0 {
		fmt.Printf("x = %.3f\n", x[0])
	}
	return nil
})

func ExampleAllReduce() {
	fmt.Println(fiber.NewRing(3, approach).Run(context.Background(), []float64{1, 2, 6}))
	// Output:
	// x = 3.000
	// <nil>
}
