//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A row is one line of the results: Fiber at some work, against others at the same work.
type row struct {
	name  string
	unit  unit
	pairs int // how many times all contenders take a turn; -pairs overrides it
	open  func(ctx context.Context, m *match) error
}

// A match is a row's contenders, warm and ready to take turns. The functions registered with
// closing are called in reverse order when the row is done, or when open fails half way.
type match struct {
	subject    contender
	references []reference
	closers    []func()
}

func (m *match) closing(f func()) { m.closers = append(m.closers, f) }

func (m *match) close() {
	for _, f := range slices.Backward(m.closers) {
		f()
	}
}

// A contender does n operations and returns their total cost: seconds, except in rows of another unit.
type contender struct {
	name string
	ops  int // operations in one turn; 0 for as many as fill a slice
	run  func(ctx context.Context, n int) (float64, error)
}

// A reference is a contender that Fiber is compared with, and the bound of that comparison.
type reference struct {
	contender
	bound bound
	open  func(context.Context, *match) (version string, err error) // starts a peer; with errAbsent it is not measured
}

// timed turns a function that does n operations into a contender's run.
func timed(work func(ctx context.Context, n int) error) func(context.Context, int) (float64, error) {
	return func(ctx context.Context, n int) (float64, error) {
		start := time.Now()
		err := work(ctx, n)
		return time.Since(start).Seconds(), err
	}
}

// constant returns a contender whose operation always costs the same.
func constant(name string, cost float64) contender {
	return contender{name: name, ops: 1, run: func(context.Context, int) (float64, error) { return cost, nil }}
}

// A harness runs rows.
type harness struct {
	pairs int           // overrides the rows' own number unless 0
	slice time.Duration // how long a turn takes for a contender without a fixed number of operations
	alone bool          // leave the references out, for a profile of Fiber alone
	apart bool          // one contender after the other instead of turns; a peer runs while it is measured, and may fail
	limit time.Duration // a row that takes longer fails
}

// measure opens a row, lets its contenders take turns (A B C A B C …) and compares their costs turn by turn.
func (h *harness) measure(ctx context.Context, r row) result {
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	res := result{Row: r.name, Unit: r.unit.name, unit: r.unit}
	m := new(match)
	defer m.close()
	if err := r.open(ctx, m); err != nil {
		res.Error = err.Error()
		return res
	}
	if h.alone {
		m.references = nil
	}
	pairs := r.pairs
	if h.pairs > 0 {
		pairs = h.pairs
	}
	if err := h.turns(ctx, m, pairs, &res); err != nil {
		res.Error = err.Error()
	}
	return res
}

func (h *harness) turns(ctx context.Context, m *match, pairs int, res *result) (err error) {
	res.Subject = m.subject.name
	if h.apart {
		if res.Samples, err = h.series(ctx, &m.subject, pairs); err != nil {
			return err
		}
	}
	contenders := []*contender{&m.subject}
	compared := []*comparison{}
	for i := range m.references {
		ref := &m.references[i]
		c := &comparison{Reference: ref.name, Bound: ref.bound.String(), bound: ref.bound}
		res.Comparisons = append(res.Comparisons, c)
		own := m
		if h.apart {
			own = new(match)
		}
		if c.Version, err = ref.start(ctx, own); err == nil && h.apart {
			c.Samples, err = h.series(ctx, &ref.contender, pairs)
		}
		switch {
		case ctx.Err() != nil:
			own.close()
			return ctx.Err()
		case err != nil && !h.apart && !errors.Is(err, errAbsent):
			return fmt.Errorf("%s: %w", ref.name, err)
		case err != nil:
			c.Absent, c.Samples = err.Error(), nil
		default:
			contenders, compared = append(contenders, &ref.contender), append(compared, c)
		}
		if h.apart {
			own.close()
		}
	}
	if !h.apart {
		if err := h.inTurns(ctx, contenders, compared, pairs, res); err != nil {
			return err
		}
	}
	res.Median = median(res.Samples)
	for _, c := range compared {
		c.settle(res.Samples)
	}
	return nil
}

// start starts what a reference needs until the match is closed.
func (r *reference) start(ctx context.Context, m *match) (version string, err error) {
	if r.open == nil {
		return "", nil
	}
	return r.open(ctx, m)
}

// series returns the costs of a contender's turns, one after the other.
func (h *harness) series(ctx context.Context, c *contender, turns int) (costs []float64, err error) {
	if err := h.calibrate(ctx, c); err != nil {
		return nil, err
	}
	for range turns {
		cost, err := c.cost(ctx)
		if err != nil {
			return nil, err
		}
		costs = append(costs, cost)
	}
	return costs, nil
}

func (h *harness) inTurns(ctx context.Context, contenders []*contender, compared []*comparison, pairs int, res *result) error {
	for _, c := range contenders {
		if err := h.calibrate(ctx, c); err != nil {
			return err
		}
	}
	for range pairs {
		for i, c := range contenders {
			if i == 1 {
				runtime.GC() // so that a reference does not collect Fiber's garbage
			}
			cost, err := c.cost(ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				res.Samples = append(res.Samples, cost)
			} else {
				compared[i-1].Samples = append(compared[i-1].Samples, cost)
			}
		}
	}
	return nil
}

// calibrate finds how many operations fill a slice, after a first turn that warms up what is still cold. A
// contender with a fixed number of operations takes that first turn only.
func (h *harness) calibrate(ctx context.Context, c *contender) error {
	fixed := c.ops > 0
	c.ops = max(1, c.ops)
	if _, err := c.cost(ctx); err != nil || fixed {
		return err
	}
	for c.ops = 1; ; c.ops *= 2 {
		cost, err := c.cost(ctx)
		if err != nil {
			return err
		}
		if took := cost * float64(c.ops); took >= h.slice.Seconds()/4 {
			c.ops = max(1, int(h.slice.Seconds()/cost))
			return nil
		}
	}
}

// cost takes one turn and returns the cost of one operation.
func (c *contender) cost(ctx context.Context) (float64, error) {
	total, err := c.run(ctx, c.ops)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	return total / float64(c.ops), nil
}

// median returns the middle of xs, which has at least one element.
func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
