package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
)

// trade is the input of the ranks of a ring that exchange messages in a hurry.
type trade struct {
	Bound   time.Duration
	For     time.Duration
	Seed    uint64
	Reports *fiber.SimpleQueue[report]
}

// A side is a neighbour, as an end of a pipe. (A ring of two has the same neighbour on both sides, but two links.)
type side struct{ *fiber.Neighbour }

func (n side) Send(ctx context.Context, l load) error { return n.Neighbour.Send(ctx, l) }

func (n side) Recv(ctx context.Context) (l load, err error) {
	err = n.Neighbour.Recv(ctx, &l)
	return l, err
}

// lane names what goes from a rank to one of its sides.
func lane(rank int, right bool) string {
	return "the ring, " + map[bool]string{true: "right", false: "left"}[right] + " of " + string(rune('0'+rank))
}

var exchangeFunc = fiber.RegisterRing("exchange", nil, func(ctx context.Context, node *fiber.RingNode, t trade) error {
	w := newWatch(t.Bound, int64(node.Rank()))
	last := time.Now().Add(t.For)
	n := node.Size()
	before, after := (node.Rank()+n-1)%n, (node.Rank()+1)%n
	hands := append(w.pipeHands(lane(node.Rank(), true), lane(after, false), side{node.Right()}, last),
		w.pipeHands(lane(node.Rank(), false), lane(before, true), side{node.Left()}, last)...)
	w.work(ctx, last, t.Seed+uint64(node.Rank()), hands, nil)
	rep := w.close()
	err := t.Reports.Put(context.WithoutCancel(ctx), rep)
	if rep.Lost != "" {
		err = errors.Join(err, errors.New(rep.Lost))
	}
	return err
})

// exchangeRound lets the ranks of a ring exchange messages with their neighbours in a hurry.
func exchangeRound(s *soak, ctx context.Context, r *rand.Rand) error {
	h := s.hurry("exchange", ringKind)
	reports, err := fiber.NewSimpleQueue[report]()
	if err != nil {
		return err
	}
	defer reports.Close()
	w := h.watch()
	t := trade{s.bound, time.Second + time.Duration(r.Int64N(int64(2*time.Second))), r.Uint64(), reports}
	h.lost = fiber.NewRing(ringSize, exchangeFunc).Run(ctx, t)
	all, err := rest(ctx, reports)
	if len(all) < ringSize && h.lost == nil {
		h.lost = errors.New("a rank has not reported")
	}
	h.lost = errors.Join(h.lost, err)
	for _, rep := range all {
		h.take(rep)
	}
	return h.settle(w)
}
