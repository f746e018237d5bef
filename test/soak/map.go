package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
)

// chore is a task of up to a few milliseconds.
type chore struct {
	N     int
	Nap   time.Duration
	Fail  bool
	Tries int  // attempts that fail
	Break bool // they say that the worker is to be replaced
}

const chores = 200

var choreFunc = fiber.Register("chore", func(ctx context.Context, c chore) (int, error) {
	select {
	case <-time.After(c.Nap):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if open, err := desk.Get(ctx); err != nil || !open.Load() {
		return 0, fmt.Errorf("the worker's state is open: %v; %w", open != nil, err)
	}
	switch task, _ := fiber.TaskFromContext(ctx); {
	case c.Fail:
		return 0, fmt.Errorf("chore %d fails", c.N)
	case task.Attempt <= c.Tries && c.Break:
		return 0, fiber.ErrReplaceWorker
	case task.Attempt <= c.Tries:
		return 0, fmt.Errorf("chore %d fails at attempt %d", c.N, task.Attempt)
	}
	return answer(c.N), nil
})

// desk is a state: whether it is open.
var desk = fiber.RegisterState("desk", func(context.Context, int) (*atomic.Bool, error) {
	var open atomic.Bool
	open.Store(true)
	return &open, nil
}, func(_ context.Context, open *atomic.Bool) error {
	open.Store(false)
	return nil
})

func answer(n int) int { return n*7 + 1 }

// someChores returns chores and their results.
func someChores(r *rand.Rand) (ins []chore, answers []int) {
	for range chores {
		ins = append(ins, chore{N: r.IntN(1e9), Nap: time.Duration(r.IntN(5000)) * time.Microsecond})
		answers = append(answers, answer(ins[len(ins)-1].N))
	}
	return ins, answers
}

// mapRound maps, without and with errors, and waits for futures, one of which is cancelled.
func mapRound(s *soak, ctx context.Context, r *rand.Rand) error {
	if plant := plants[s.plant]; plant != nil {
		s.planted = append(s.planted, plant(s, ctx))
	}
	ins, answers := someChores(r)
	outs, err := fiber.Map(ctx, s.pool, choreFunc, ins, fiber.OnProgress(func(fiber.Progress) { s.did("map", 1) }))
	if err != nil || !slices.Equal(outs, answers) {
		return fmt.Errorf("the results are %v, not %v; %w", outs, answers, err)
	}

	first := r.IntN(chores / 2)
	ins[first].Fail, ins[first+1+r.IntN(chores/2)].Fail = true, true
	var remote *fiber.RemoteError
	_, err = fiber.Map(ctx, s.pool, choreFunc, ins)
	if want := fmt.Sprintf("chore %d fails", ins[first].N); !errors.As(err, &remote) || !strings.Contains(remote.Message, want) {
		return fmt.Errorf("the error is not %q: %w", want, err)
	}

	ins, answers = someChores(r)
	for i := range 3 {
		ins[r.IntN(chores)].Tries = 1 + i%2
	}
	ins[r.IntN(chores)] = chore{N: ins[first].N, Tries: 1, Break: r.IntN(10) == 0}
	for i := range ins {
		answers[i] = answer(ins[i].N)
	}
	if outs, err = fiber.Map(ctx, s.pool, choreFunc, ins, fiber.Retries(2), fiber.Backoff(0, 100*time.Millisecond)); err != nil || !slices.Equal(outs, answers) {
		return fmt.Errorf("after retries, the results are %v, not %v; %w", outs, answers, err)
	}
	s.did("map", chores)

	gone, cancel := context.WithCancel(ctx)
	cancelled := fiber.ApplyAsync(gone, s.pool, choreFunc, chore{Nap: time.Minute})
	var futures []*fiber.Future[int]
	ins, answers = someChores(r)
	for _, in := range ins[:20] {
		futures = append(futures, fiber.ApplyAsync(ctx, s.pool, choreFunc, in))
	}
	cancel()
	for i, f := range futures {
		if out, err := f.Get(ctx); err != nil || out != answers[i] {
			return fmt.Errorf("call %d returned %d instead of %d, %w", i, out, answers[i], err)
		}
		s.did("map", 1)
	}
	if _, err := cancelled.Get(ctx); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the cancelled call returned %w", err)
	}
	return nil
}

// imapRound streams, in order and out of order, and leaves an endless loop.
func imapRound(s *soak, ctx context.Context, r *rand.Rand) error {
	ins, answers := someChores(r)
	var ordered, unordered []int
	for out, err := range fiber.IMap(ctx, s.pool, choreFunc, slices.Values(ins)) {
		if err != nil {
			return err
		}
		ordered = append(ordered, out)
		s.did("imap", 1)
	}
	for out, err := range fiber.IMapUnordered(ctx, s.pool, choreFunc, slices.Values(ins)) {
		if err != nil {
			return err
		}
		unordered = append(unordered, out)
		s.did("imap", 1)
	}
	if !slices.Equal(ordered, answers) || !slices.Equal(slices.Sorted(slices.Values(unordered)), slices.Sorted(slices.Values(answers))) {
		return fmt.Errorf("the results are %v and %v, not %v", ordered, unordered, answers)
	}

	endless := func(yield func(chore) bool) {
		for i := 0; yield(chore{N: i}); i++ {
		}
	}
	next, last := 0, r.IntN(chores)
	for out, err := range fiber.IMap(ctx, s.pool, choreFunc, endless) {
		if err != nil || out != answer(next) {
			return fmt.Errorf("result %d is %d, %w", next, out, err)
		}
		if next++; next > last {
			break
		}
	}
	return nil
}

// lookup is a request for a number of a shared table.
type lookup struct {
	Table *fiber.Shared[[]float64]
	Size  int
	Index int
}

const (
	tableSize = 1 << 16
	largeSize = 1 << 20 // takes long enough to pass on for a process to be killed meanwhile
)

var lookupFunc = fiber.Register("lookup", func(ctx context.Context, l lookup) (float64, error) {
	table, err := l.Table.Get(ctx)
	if err != nil || len(table) != l.Size {
		return 0, fmt.Errorf("the table has %d numbers, %w", len(table), err)
	}
	return table[l.Index], nil
})

// shareRound shares a table, in which the workers look numbers up.
func shareRound(s *soak, ctx context.Context, r *rand.Rand) error {
	size := tableSize
	if r.IntN(10) == 0 {
		size = largeSize
	}
	table := make([]float64, size)
	for i := range table {
		table[i] = r.Float64()
	}
	shared, err := fiber.Share(ctx, table)
	if err != nil {
		return err
	}
	defer shared.Close()
	var ins []lookup
	var want []float64
	for range 40 {
		ins = append(ins, lookup{shared, size, r.IntN(size)})
		want = append(want, table[ins[len(ins)-1].Index])
	}
	outs, err := fiber.Map(ctx, s.pool, lookupFunc, ins)
	if err != nil || !slices.Equal(outs, want) {
		return fmt.Errorf("the numbers are %v, not %v; %w", outs, want, err)
	}
	s.did("share", len(outs))
	return nil
}

// addTables adds the numbers of two tables up, one by one.
var addTables = fiber.Register("addTables", func(ctx context.Context, pair [2]*fiber.Shared[[]float64]) (*fiber.Shared[[]float64], error) {
	a, err := pair[0].Get(ctx)
	if err != nil {
		return nil, err
	}
	b, err := pair[1].Get(ctx)
	if err != nil {
		return nil, err
	}
	sum := slices.Clone(a)
	for i, x := range b {
		sum[i] += x
	}
	return fiber.Share(ctx, sum, fiber.WithCopies(1+int(sum[0])%2))
})

// reduceRound adds tables up. The workers that hold a sum may be killed, also when there is only one left.
func reduceRound(s *soak, ctx context.Context, r *rand.Rand) error {
	var tables []*fiber.Shared[[]float64]
	want := make([]float64, tableSize)
	for range 2 + r.IntN(7) {
		table := make([]float64, tableSize)
		for i := range table {
			table[i] = float64(r.IntN(1000))
			want[i] += table[i]
		}
		shared, err := fiber.Share(ctx, table)
		if err != nil {
			return err
		}
		defer shared.Close()
		tables = append(tables, shared)
	}
	for {
		out, err := fiber.Reduce(ctx, s.pool, addTables, tables)
		if err != nil {
			return err
		}
		sum, err := out.Get(ctx)
		if lost := (*fiber.WorkerLostError)(nil); errors.As(err, &lost) {
			continue
		}
		if err != nil {
			return err
		}
		if !slices.Equal(sum, want) {
			return fmt.Errorf("the sums of %d tables are wrong", len(tables))
		}
		s.did("reduce", len(tables)-1)
		return nil
	}
}
