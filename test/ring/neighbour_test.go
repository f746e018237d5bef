//go:build unix

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// packet is what neighbours send each other.
type packet struct {
	From    int
	Serial  int
	Numbers []float64
}

var talking = fiber.RegisterRing("talking", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	me, left, right := node.Rank(), node.Left(), node.Right()
	const each = 200
	numbers := make([]float64, 3_000_000) // more than sockets hold, and than is read ahead
	for i := range numbers {
		numbers[i] = float64(me)
	}
	// All send first, in both directions, and receive then. Collectives do not get
	// in between.
	for _, to := range []*fiber.Neighbour{right, left} {
		if err := to.Send(ctx, packet{me, -1, numbers}); err != nil {
			return err
		}
	}
	clear(numbers) // it is ours again
	if err := node.Barrier(ctx); err != nil {
		return err
	}
	for _, from := range []*fiber.Neighbour{left, right} {
		var p packet
		if err := from.Recv(ctx, &p); err != nil {
			return err
		}
		want := packet{from.Rank(), -1, slices.Repeat([]float64{float64(from.Rank())}, len(numbers))}
		if p.From != want.From || p.Serial != -1 || !slices.Equal(p.Numbers, want.Numbers) {
			return fmt.Errorf("rank %d got packet %d of %d with %d numbers from %d", me, p.Serial, p.From, len(p.Numbers), from.Rank())
		}
	}
	sent := make(chan error, 2)
	for _, to := range []*fiber.Neighbour{left, right} {
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				err = to.Send(ctx, packet{me, i, nil})
			}
			sent <- err
		}()
	}
	for i := range each {
		for _, from := range []*fiber.Neighbour{left, right} {
			var p packet
			if err := from.Recv(ctx, &p); err != nil {
				return err
			}
			if p.From != from.Rank() || p.Serial != i {
				return fmt.Errorf("rank %d got packet %d of %d as the %dth of %d", me, p.Serial, p.From, i, from.Rank())
			}
		}
		if i%50 == 0 {
			xs := []float64{1}
			if err := fiber.AllReduce(ctx, node, xs); err != nil || xs[0] != float64(node.Size()) {
				return fmt.Errorf("%v: %w", xs, err)
			}
		}
	}
	return errors.Join(<-sent, <-sent, node.Barrier(ctx))
})

func TestNeighbours(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			require.NoError(t, fiber.NewRing(size, talking).Run(fibertest.Soon(t), fibertest.None{}))
		})
	}
}

// What goes wrong between neighbours is theirs to handle: the ring goes on.
var mistaken = fiber.RegisterRing("mistaken", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	left, right := node.Left(), node.Right()
	var number int
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := left.Recv(short, &number); err != context.DeadlineExceeded {
		return fmt.Errorf("Recv when nothing comes: %v", err)
	}
	if err := right.Send(short, 1); err != context.DeadlineExceeded {
		return fmt.Errorf("Send with a context that has ended: %v", err)
	}
	if err := node.Barrier(ctx); err != nil {
		return err
	}
	if err := right.Send(ctx, make(chan int)); !errors.As(err, new(*fiber.EncodeError)) {
		return fmt.Errorf("Send of a channel: %v", err)
	}
	if err := errors.Join(right.Send(ctx, "text"), right.Send(ctx, 7)); err != nil {
		return err
	}
	if err := left.Recv(ctx, &number); !errors.As(err, new(*fiber.EncodeError)) {
		return fmt.Errorf("Recv of another type: %v", err)
	}
	if err := left.Recv(ctx, number); !errors.As(err, new(*fiber.EncodeError)) {
		return fmt.Errorf("Recv into no pointer: %v", err)
	}
	if err := node.Barrier(ctx); err != nil {
		return err
	}
	if node.Rank() == 1 {
		return right.Send(ctx, 8) // and goodbye
	}
	if node.Rank() == 2 {
		if err := left.Recv(ctx, &number); err != nil || number != 8 {
			return fmt.Errorf("the last message: %d, %w", number, err)
		}
		if err := left.Recv(ctx, &number); err == nil || !strings.Contains(err.Error(), "rank 1 has returned from the ring's function") {
			return fmt.Errorf("Recv from a rank that has gone: %v", err)
		}
	}
	return nil
})

func TestMistakenNeighbours(t *testing.T) {
	t.Parallel()
	require.NoError(t, fiber.NewRing(3, mistaken).Run(fibertest.Soon(t), fibertest.None{}))
}

// quiet is a ring that ends with a Barrier.
var quiet = fiber.RegisterRing("quiet", nil, func(ctx context.Context, node *fiber.RingNode, _ int) error {
	return node.Barrier(ctx)
})

// passing has each rank send its rank to the right, and what comes from the left
// further, until everything has come around.
var passing = fiber.RegisterRing("passing", nil, func(ctx context.Context, node *fiber.RingNode, rounds int) error {
	number := node.Rank()
	for range rounds * node.Size() {
		if err := node.Right().Send(ctx, number); err != nil {
			return err
		}
		if err := node.Left().Recv(ctx, &number); err != nil {
			return err
		}
	}
	return nil
})

// The last thing that the ranks do is to send, and be received from. A ring ends
// after it as soon as any other.
func TestLastMessages(t *testing.T) {
	t.Parallel()
	run := func(ring *fiber.RingFunc[int]) time.Duration {
		begun := time.Now()
		require.NoError(t, fiber.NewRing(3, ring).Run(fibertest.Soon(t), 3))
		return time.Since(begun)
	}
	var usual, last []time.Duration
	for range 5 {
		usual = append(usual, run(quiet))
		for range 4 {
			last = append(last, run(passing))
		}
	}
	slices.Sort(usual)
	slices.Sort(last)
	require.Less(t, last[len(last)/2], 10*usual[len(usual)/2])
}

// floods sends more than a neighbour reads ahead, each message with a deadline, and
// receives only then what has arrived, or still does.
var floods = fiber.RegisterRing("floods", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	numbers := make([]float64, 3_000_000)
	var arrive []float64
	for i := range 4 {
		for k := range numbers {
			numbers[k] = float64(i)
		}
		within, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		err := node.Right().Send(within, packet{node.Rank(), i, numbers})
		if err == nil || errors.Is(err, fiber.ErrUnknownOutcome) {
			arrive = append(arrive, float64(i))
		}
		if err != nil && !errors.Is(err, within.Err()) {
			return err
		}
	}
	clear(numbers) // it is ours again
	sent := make(chan error, 1)
	go func() { sent <- node.Right().Send(ctx, packet{node.Rank(), -1, arrive}) }()
	var came []float64
	for {
		var p packet
		if err := node.Left().Recv(ctx, &p); err != nil {
			return err
		}
		if p.Serial < 0 {
			if !slices.Equal(came, p.Numbers) {
				return fmt.Errorf("%v came of %v", came, p.Numbers)
			}
			return <-sent
		}
		if !slices.Equal(p.Numbers, slices.Repeat([]float64{float64(p.Serial)}, len(numbers))) {
			return fmt.Errorf("message %d is not what was sent", p.Serial)
		}
		came = append(came, float64(p.Serial))
	}
})

// All ranks send first, and more than a ring takes: each Send ends with its
// context, and what has begun to leave arrives.
func TestAllRanksSendTooMuchFirst(t *testing.T) {
	t.Parallel()
	r := fiber.NewRing(3, floods)
	require.NoError(t, r.Run(fibertest.Soon(t), fibertest.None{}))
}
