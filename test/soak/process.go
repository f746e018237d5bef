package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
)

// nest is the input of a process that a worker starts.
type nest struct {
	Answers *fiber.SimpleQueue[[2]int]
	N       int
}

var (
	nestedFunc = fiber.Register("nested", func(ctx context.Context, n nest) (struct{}, error) {
		time.Sleep(100 * time.Millisecond)
		return struct{}{}, n.Answers.Put(ctx, [2]int{n.N, answer(n.N)})
	})

	// nestFunc returns the error with which the process has ended.
	nestFunc = fiber.Register("nest", func(ctx context.Context, n nest) (string, error) {
		if err := begun(ctx, fiber.NewProcess(nestedFunc, n, fiber.WithName(nestedKind))); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
)

// begun starts a process and waits until it has ended.
func begun(ctx context.Context, p *fiber.Process) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.Join(ctx)
}

// nestedRound lets workers start processes, which answer through a queue.
func nestedRound(s *soak, ctx context.Context, r *rand.Rand) error {
	since := s.killer.mark(nestedKind)
	q, err := fiber.NewSimpleQueue[[2]int]()
	if err != nil {
		return err
	}
	defer q.Close()
	ins := make([]nest, 3)
	for i := range ins {
		ins[i] = nest{q, r.IntN(1e9)}
	}
	outs, err := fiber.Map(ctx, s.pool, nestFunc, ins, fiber.ChunkSize(1))
	if err != nil {
		return err
	}
	answers := map[int]int{}
	all, err := rest(ctx, q)
	for _, a := range all {
		answers[a[0]] = a[1]
	}
	for i, out := range outs {
		s.did("nested", 1)
		if out != "" {
			err = errors.Join(err, s.excuse("nested", nestedKind, since, fmt.Errorf("a worker's process: %s", out)))
		} else if got := answers[ins[i].N]; got != answer(ins[i].N) {
			err = errors.Join(err, fmt.Errorf("the process for %d put %d", ins[i].N, got))
		}
	}
	return err
}

// rest returns the items in a queue.
func rest[T any](ctx context.Context, q *fiber.SimpleQueue[T]) (all []T, err error) {
	n, err := q.Len(ctx)
	for err == nil && n > 0 {
		var some []T
		if some, err = q.GetMany(ctx, n); err == nil {
			all = append(all, some...)
			n, err = q.Len(ctx)
		}
	}
	return all, err
}

// link is the input of a process between two pipes.
type link struct {
	In  *fiber.Receiver[int]
	Out *fiber.Sender[int]
}

// linkFunc passes on the numbers that it receives, each increased by one.
var linkFunc = fiber.Register("link", func(ctx context.Context, l link) (struct{}, error) {
	for {
		n, err := l.In.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return struct{}{}, l.Out.Close()
		}
		if err == nil {
			err = l.Out.Send(ctx, n+1)
		}
		if err != nil {
			return struct{}{}, err
		}
	}
})

// pipeRound sends numbers through a chain of two processes and back.
func pipeRound(s *soak, ctx context.Context, _ *rand.Rand) error {
	since := s.killer.mark(pipeKind)
	in1, out1, err1 := fiber.PipeOneWay[int]()
	in2, out2, err2 := fiber.PipeOneWay[int]()
	in3, out3, err3 := fiber.PipeOneWay[int]()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var chain []*fiber.Process
	err := error(nil)
	for _, l := range []link{{in1, out2}, {in2, out3}} {
		p := fiber.NewProcess(linkFunc, l, fiber.WithName(pipeKind))
		if err = p.Start(ctx); err != nil {
			break
		}
		chain = append(chain, p)
	}
	if err == nil {
		err = s.talk(ctx, out1, in3)
	}
	if err != nil { // the remaining processes would wait
		for _, end := range []io.Closer{in1, out1, in2, out2, in3, out3} {
			end.Close() // some ends have been handed on
		}
		for _, p := range chain {
			p.Kill()
		}
	}
	for _, p := range chain {
		err = errors.Join(err, p.Join(ctx))
	}
	return errors.Join(s.excuse("pipe", pipeKind, since, err), in3.Close())
}

func (s *soak) talk(ctx context.Context, w *fiber.Sender[int], r *fiber.Receiver[int]) error {
	for n := range 50 {
		if err := w.Send(ctx, n); err != nil {
			return err
		}
		got, err := r.Recv(ctx)
		if err == nil && got != n+2 {
			err = fmt.Errorf("%w: %d was sent, and %d came back", errWrong, n, got)
		}
		if err != nil {
			return err
		}
		s.did("pipe", 1)
		time.Sleep(20 * time.Millisecond)
	}
	if err := w.Close(); err != nil {
		return err
	}
	if n, err := r.Recv(ctx); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the last number came %d, %w", n, err)
	}
	return nil
}

const ringSize = 3

var ringFunc = fiber.RegisterRing("sum", nil, func(ctx context.Context, node *fiber.RingNode, seed int) error {
	for round := range 20 {
		xs := make([]float64, 1000)
		for i := range xs {
			xs[i] = float64((seed + i + round) * (node.Rank() + 1))
		}
		if err := fiber.AllReduce(ctx, node, xs); err != nil {
			return err
		}
		for i, x := range xs {
			if want := float64((seed + i + round) * ringSize * (ringSize + 1) / 2); x != want {
				return fmt.Errorf("%w: number %d is %v, not %v", errWrong, i, x, want)
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
})

// ringRound adds numbers up in a ring.
func ringRound(s *soak, ctx context.Context, r *rand.Rand) error {
	since := s.killer.mark(ringKind)
	err := fiber.NewRing(ringSize, ringFunc).Run(ctx, r.IntN(1e6))
	var ring *fiber.RingError
	if err != nil && !errors.As(err, &ring) {
		return fmt.Errorf("not the ring's own error: %w", err)
	}
	s.did("ring", 1)
	return s.excuse("ring", ringKind, since, err)
}
