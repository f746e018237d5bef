package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// Planted faults show in the figures.
func TestPlantedLeaks(t *testing.T) {
	for plant, figure := range map[string]string{"goroutine": "goroutines", "descriptor": "descriptors", "memory": "heap MiB"} {
		s := &soak{ground: &ground{}}
		grows := func(faults int) bool {
			s.series = map[string][]float64{}
			for range 30 {
				for range faults {
					s.planted = append(s.planted, plants[plant](s, t.Context()))
				}
				s.series[figure] = append(s.series[figure], s.take(t.Context())[figure])
			}
			_, _, grown := s.trend(figure)
			return grown
		}
		require.False(t, grows(0), "%s without a fault", figure)
		require.True(t, grows(1), figure)
	}
}

// An item that was acknowledged but not received is lost.
func TestLostItem(t *testing.T) {
	t.Parallel()
	a := &account{acked: []item{{0, 0}, {0, 1}, {1, 1}}, taken: map[item][]int{{0, 0}: {1}, {1, 1}: {2}, {1, 2}: {1}}}
	require.Equal(t, []item{{0, 1}}, a.lost())
}

// What a place must not do with items shows.
func TestLedger(t *testing.T) {
	t.Parallel()
	require.Empty(t, page{Acked: []int64{1, 2}, Unknown: []int64{3, 4}, Never: []int64{5}, Got: []int64{4, 2, 1}}.faults("q", false))
	for fault, p := range map[string]page{
		"alone: [1]":                     {Never: []int64{1}, Got: []int64{1}},
		"acknowledged items are lost":    {Acked: []int64{1}},
		"items came out twice":           {Unknown: []int64{1}, Got: []int64{1, 1}},
		"items came out that nobody put": {Got: []int64{1}},
	} {
		faults := p.faults("q", false)
		require.Len(t, faults, 1, fault)
		require.Contains(t, faults[0], fault)
	}
	require.Empty(t, page{Acked: []int64{1}, Got: []int64{2, 2}}.faults("q", true), "a process was killed")
	require.NotEmpty(t, page{Never: []int64{1}, Got: []int64{1}}.faults("q", true), "no kill excuses this one")
}

// An operation that ignores its context is found, with its name; one without a deadline, and the time in which this process
// is stopped, are not.
func TestOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(time.Minute, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		out, err := w.do(ctx, "wait", func(context.Context) error { <-w.overdue.Done(); return ctx.Err() })
		require.Equal(t, never, out)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(begun), 61*time.Second)
		rep := w.close()
		require.Len(t, rep.Faults, 1)
		require.Contains(t, rep.Faults[0], "overdue: wait of")
		require.GreaterOrEqual(t, rep.Kinds["wait"].Overrun, time.Minute)

		w = newWatch(time.Minute, 0)
		w.lock.Lock()
		w.looked = w.looked.Add(-time.Hour) // as if stopped
		require.LessOrEqual(t, w.now(), 4*tick)
		w.lock.Unlock()
		out, _ = w.do(t.Context(), "long", func(context.Context) error { time.Sleep(time.Hour); return fiber.ErrUnknownOutcome })
		require.Equal(t, unknown, out)
		rep = w.close()
		require.Len(t, rep.Faults, 1, "no context has ended")
	})
}

// A line that has not come, or not whole, is found, with who has printed it; the last ones of a killed printer are not.
func TestLinesThatDoNotCome(t *testing.T) {
	t.Parallel()
	who := rand.Text()
	line := func(n int) string { return fmt.Sprintf("printer-1  | "+said+"%s %d %s", who, n, printable) }
	returned := said + who + " all 3"
	for fault, lines := range map[string][]string{
		"":                                       {line(0), line(1), returned, line(2)},
		"2 lines of 3 have come":                 {line(0), line(1), returned},
		"line 2 has come in the place of line 1": {line(0), line(2), returned},
		"line 1 has come in the place of line 2": {line(0), line(1), line(1), line(2), returned},
		"half a line":                            {line(0), line(1)[:50], line(2), returned},
		"a line has come as":                     {line(0), line(1)[50:], line(1), line(2), returned},
		"5 bytes are missing":                    {line(0), line(1), line(2), returned, "printer-1 | fiber: 5 bytes are missing here"},
	} {
		r := &reader{tasks: map[string]*printed{}}
		s := newSoak(options{root: "node1"}, &ground{}, r)
		for _, l := range lines {
			r.take(l)
		}
		r.settle(s)
		if fault == "" {
			require.NoError(t, s.faults.err())
		} else {
			require.ErrorContains(t, s.faults.err(), numbers.ReplaceAllString(fault, "N"))
		}
	}
	r := &reader{tasks: map[string]*printed{}}
	s := newSoak(options{root: "node1"}, &ground{}, r)
	s.killer.victims["printer-1"] = true
	r.take(line(0))
	r.take(returned)
	r.settle(s)
	require.NoError(t, s.faults.err())
}
