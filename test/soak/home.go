package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
)

// house is what a process has made that does nothing else. Each of its two users gets one end of the pipe.
type house struct {
	Queue  *fiber.SimpleQueue[load]
	End    *fiber.Conn[load]
	Other  *fiber.Conn[load]                    // for the other user
	Doors  *fiber.SimpleQueue[*fiber.Conn[int]] // ends that the house owned last
	Tables []*fiber.Shared[[]float64]
	Noise  *fiber.SimpleQueue[int64]
	Empty  *fiber.SimpleQueue[int64]

	Rooted      *fiber.SimpleQueue[load] // the root's
	RootedDoors *fiber.SimpleQueue[*fiber.Conn[int]]
	To, From    string // the pipe's ends
}

// build is the input of a home.
type build struct {
	Houses   *fiber.SimpleQueue[house]
	Capacity int
	Bye      *fiber.SimpleQueue[int]
}

const (
	tables   = 8
	homesOwn = "a process's SimpleQueue"
	rootsOwn = "the root's SimpleQueue"
)

// homeFunc makes a house, and stays until Bye is closed.
var homeFunc = fiber.Register("home", func(ctx context.Context, b build) (struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var h house
	var errs [6]error
	h.Queue, errs[0] = newStore(b.Capacity)
	h.End, h.Other, errs[1] = fiber.Pipe[load]()
	h.Doors, errs[2] = fiber.NewSimpleQueue[*fiber.Conn[int]](fiber.WithCapacity(3))
	h.Noise, errs[3] = fiber.NewSimpleQueue[int64]()
	h.Empty, errs[5] = fiber.NewSimpleQueue[int64]()
	for i := range tables {
		table := make([]float64, tableSize)
		table[0] = float64(i)
		t, err := fiber.Share(ctx, table)
		errs[4] = errors.Join(errs[4], err)
		h.Tables = append(h.Tables, t)
	}
	if err := errors.Join(append(errs[:], b.Houses.Put(ctx, h))...); err != nil {
		return struct{}{}, err
	}
	go func() {
		for ctx.Err() == nil {
			here, there, err := fiber.Pipe[int]()
			if err != nil || h.Doors.Put(ctx, there) != nil {
				return
			}
			here.Close()
		}
	}()
	if _, err := b.Bye.Get(ctx); !errors.Is(err, fiber.ErrClosed) {
		return struct{}{}, err
	}
	for _, t := range h.Tables {
		t.Close()
	}
	return struct{}{}, nil
})

func newStore(capacity int) (*fiber.SimpleQueue[load], error) {
	if capacity == 0 {
		return fiber.NewSimpleQueue[load]()
	}
	return fiber.NewSimpleQueue[load](fiber.WithCapacity(capacity))
}

// busyHands keep the connections busy.
func (h *house) busyHands(w *watch) []hand {
	return []hand{{name: "busy SimpleQueue.Put", op: func(ctx context.Context, r *rand.Rand) error {
		if err := w.try(ctx, "busy Put", func(ctx context.Context) error { return h.Noise.Put(ctx, 1) }); err != nil || ctx.Err() != nil {
			return err
		}
		return w.try(ctx, "busy Get", func(ctx context.Context) error { _, err := h.Noise.Get(ctx); return err })
	}}}
}

// hands use each thing in a hurry.
func (h *house) hands(w *watch, last time.Time) []hand {
	hands := append(w.storeHands(homesOwn, h.Queue), w.storeHands(rootsOwn, h.Rooted)...)
	hands = append(hands, w.pipeHands(h.To, h.From, h.End, last)...)
	table := 0
	return append(hands,
		hurried("who waits for nothing", func(ctx context.Context, _ *rand.Rand) error {
			return w.try(ctx, "Get, an empty SimpleQueue", func(ctx context.Context) error { _, err := h.Empty.Get(ctx); return err })
		}),
		hurried("who reads a shared value", func(ctx context.Context, r *rand.Rand) error {
			if table == len(h.Tables) {
				return errDone
			}
			out, err := w.do(ctx, "Shared.Get", func(ctx context.Context) error {
				t, err := h.Tables[table].Get(ctx)
				if err == nil && (len(t) != tableSize || t[0] != float64(table)) {
					w.wrong("table %d has %d numbers, and begins with %v", table, len(t), t[:min(1, len(t))])
				}
				return err
			})
			if out == done {
				table++
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			}
			return fatal(out, err)
		}),
		hand{name: "who passes ends of pipes on", op: func(long context.Context, r *rand.Rand) error {
			ctx, cancel := soon(long, r)
			defer cancel()
			var end *fiber.Conn[int]
			out, err := w.do(ctx, "Get of a pipe's end", func(ctx context.Context) (err error) {
				end, err = h.Doors.Get(ctx)
				return err
			})
			if out != done {
				return fatal(out, err)
			}
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
			ctx, cancel = soon(long, r)
			defer cancel()
			if out, err = w.do(ctx, "Put of a pipe's end", func(ctx context.Context) error { return h.RootedDoors.Put(ctx, end) }); out != done {
				end.Close()
			}
			return fatal(out, err)
		}},
		hurried("who takes ends of pipes over", func(ctx context.Context, r *rand.Rand) error {
			var end *fiber.Conn[int]
			out, err := w.do(ctx, "Get of a passed end", func(ctx context.Context) (err error) {
				end, err = h.RootedDoors.Get(ctx)
				return err
			})
			if out != done {
				return fatal(out, err)
			}
			return end.Close()
		}),
	)
}

// homeRound lets two processes use in a hurry what a third one has made, and what one of them has made.
func homeRound(s *soak, ctx context.Context, r *rand.Rand) error {
	h := s.hurry("home", homeKind, userKind)
	houses, err1 := fiber.NewSimpleQueue[house]()
	bye, err2 := fiber.NewSimpleQueue[int]()
	rooted, err3 := newStore(20 * r.IntN(2))
	doors, err4 := fiber.NewSimpleQueue[*fiber.Conn[int]]()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	defer houses.Close()
	defer rooted.Close()
	defer doors.Close()
	p := fiber.NewProcess(homeFunc, build{houses, 20 * r.IntN(2), bye}, fiber.WithName(homeKind))
	if err := p.Start(ctx); err != nil {
		return errors.Join(h.excuse(err), bye.Close())
	}
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a home that has died builds no house
		<-p.Done()
		cancel()
	}()
	here, err := houses.Get(gone)
	if err != nil {
		p.Kill()
		return errors.Join(h.excuse(errors.Join(fmt.Errorf("no house: %w", err), p.Join(ctx))), bye.Close())
	}
	here.Rooted, here.RootedDoors = rooted, doors
	there := here
	there.End, here.Other, there.Other = here.Other, nil, nil
	here.To, here.From, there.To, there.From = "the pipe to the user", "the pipe to the root", "the pipe to the root", "the pipe to the user"
	h.home = func() { p.Kill() }
	w := h.watch()
	whole := h.run(ctx, w, errand{House: &here}, errand{House: &there}, r)
	here.End.Close()
	there.End.Close() // unless it has moved
	if whole {
		h.empty(ctx, w, homesOwn, here.Queue, r)
		h.empty(ctx, w, rootsOwn, rooted, r)
	}
	for whole { // ends that were passed on belong to nobody else
		n, err := doors.Len(ctx)
		if n == 0 || err != nil {
			break
		}
		if end, err := doors.Get(ctx); err == nil {
			end.Close()
		}
	}
	h.excuse(errors.Join(bye.Close()))
	if err := p.Join(ctx); err != nil && whole && h.lost == nil {
		h.lost = fmt.Errorf("the home: %w", err)
	}
	return h.settle(w)
}
