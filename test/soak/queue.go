package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

const (
	items     = 300
	consumers = 2
	batch     = 3 // items at a time, at most
	myself    = 0 // this process, as a consumer
)

// item is the N-th item, put by a producer. A killed producer is followed by another, which goes on after the last item
// that was acknowledged.
type item struct{ Producer, N int }

// got is an item that a consumer received.
type got struct {
	Item     item
	Consumer int
}

// part is the input of a producer or a consumer.
type part struct {
	Queue *fiber.SimpleQueue[item]
	From  item
	Acks  *fiber.Sender[int] // the first item that is not in the queue

	Consumer int
	Got      *fiber.SimpleQueue[got]
}

var (
	produceFunc = fiber.Register("produce", func(ctx context.Context, p part) (struct{}, error) {
		for n := p.From.N; n < items; time.Sleep(20 * time.Millisecond) {
			var some []item
			for range min(1+n%batch, items-n) {
				some = append(some, item{p.From.Producer, n})
				n++
			}
			if err := p.Queue.PutMany(ctx, some); err != nil {
				return struct{}{}, err
			}
			if err := p.Acks.Send(ctx, n); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, p.Acks.Close()
	})

	consumeFunc = fiber.Register("consume", func(ctx context.Context, p part) (struct{}, error) {
		for n := 0; ; n++ {
			some, err := p.Queue.GetMany(ctx, 1+n%batch)
			if errors.Is(err, fiber.ErrClosed) {
				return struct{}{}, nil
			}
			var all []got
			for _, it := range some {
				all = append(all, got{it, p.Consumer})
			}
			if err == nil {
				err = p.Got.PutMany(ctx, all)
			}
			if err != nil {
				return struct{}{}, err
			}
		}
	})
)

// account is what is known about a round's items.
type account struct {
	queue *fiber.SimpleQueue[item]
	got   *fiber.SimpleQueue[got]
	acked []item
	taken map[item][]int // by which consumers
	last  map[got]int    // the last item of a producer that a consumer received

	lock      sync.Mutex
	consumers int
	dead      map[int]bool // consumers
}

// queueRound runs a producer and consumers of one queue, and accounts for all items.
func queueRound(s *soak, ctx context.Context, r *rand.Rand) error {
	queue, err1 := fiber.NewSimpleQueue[item](fiber.WithCapacity(10 + 1000*r.IntN(2)))
	results, err2 := fiber.NewSimpleQueue[got]()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	defer results.Close()
	a := &account{queue: queue, got: results, dead: map[int]bool{}, taken: map[item][]int{}, last: map[got]int{}}
	var consuming sync.WaitGroup
	errs := make([]error, consumers)
	for i := range consumers {
		consuming.Go(func() { errs[i] = a.consume(ctx, s) })
	}
	err := errors.Join(a.produce(ctx, s), queue.Close())
	consuming.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return a.settle(ctx, s)
}

// produce runs a producer, and replaces it when it is killed.
func (a *account) produce(ctx context.Context, s *soak) error {
	for next, producer := 0, 0; next < items; producer++ {
		since := s.killer.mark(queueKind)
		acks, w, err := fiber.PipeOneWay[int]()
		if err != nil {
			return err
		}
		p := fiber.NewProcess(produceFunc, part{Queue: a.queue, From: item{producer, next}, Acks: w}, fiber.WithName(queueKind))
		if err = p.Start(ctx); err == nil {
			for n, lost := acks.Recv(ctx); lost == nil; n, lost = acks.Recv(ctx) {
				for ; next < n; next++ {
					a.acked = append(a.acked, item{producer, next})
					s.did("queue", 1)
				}
			}
			err = p.Join(ctx)
		}
		if err == nil && next < items {
			return fmt.Errorf("the producer ended without an error at item %d", next)
		}
		if err := errors.Join(s.excuse("queue", queueKind, since, err), acks.Close(), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// consume runs a consumer, and replaces it when it is killed.
func (a *account) consume(ctx context.Context, s *soak) error {
	for {
		a.lock.Lock()
		a.consumers++
		p := part{Queue: a.queue, Got: a.got, Consumer: a.consumers}
		a.lock.Unlock()
		since := s.killer.mark(queueKind)
		err := begun(ctx, fiber.NewProcess(consumeFunc, p, fiber.WithName(queueKind)))
		if err == nil {
			return nil
		}
		a.lock.Lock()
		a.dead[p.Consumer] = true
		a.lock.Unlock()
		if err := errors.Join(s.excuse("queue", queueKind, since, err), ctx.Err()); err != nil {
			return err
		}
	}
}

// settle waits for the items that come back from dead consumers, and returns an error if an item is lost or doubled.
func (a *account) settle(ctx context.Context, s *soak) error {
	disorder := a.drain(ctx)
	if s.plant == "item" {
		a.acked = append(a.acked, item{-1, 0})
	}
	for late := time.After(s.patience / 2); len(a.lost()) > batch*len(a.dead); { // a consumer may have died before it reported a batch
		select {
		case <-late:
			return fmt.Errorf("%d items are lost, with %d consumers killed: %v", len(a.lost()), len(a.dead), a.lost())
		case <-time.After(100 * time.Millisecond):
			disorder = errors.Join(disorder, a.drain(ctx))
			s.did("queue", 0)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for it, by := range a.taken {
		for _, consumer := range by {
			if len(by) > 1 && !a.dead[consumer] {
				return fmt.Errorf("%v was received %d times, by %v; of these %v were killed", it, len(by), by, a.dead)
			}
		}
	}
	return disorder
}

// drain reads what the consumers have reported, and the queue itself. It returns an error if the order is wrong; items of a
// dead consumer come again, at the front.
func (a *account) drain(ctx context.Context) (disorder error) {
	all, err := rest(ctx, a.got)
	back, err2 := rest(ctx, a.queue)
	for _, it := range back {
		all = append(all, got{it, myself})
	}
	for _, g := range all {
		a.taken[g.Item] = append(a.taken[g.Item], g.Consumer)
		line := got{item{Producer: g.Item.Producer}, g.Consumer}
		if last, before := a.last[line]; before && last >= g.Item.N && len(a.dead) == 0 {
			disorder = fmt.Errorf("consumer %d got %v after item %d", g.Consumer, g.Item, last)
		}
		a.last[line] = g.Item.N
	}
	return errors.Join(err, err2, disorder)
}

// lost returns the items that were acknowledged but not received.
func (a *account) lost() (lost []item) {
	for _, it := range a.acked {
		if len(a.taken[it]) == 0 {
			lost = append(lost, it)
		}
	}
	return lost
}
