//go:build unix

package pool_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/test/fibertest"
)

// seen is what a loop over events has had.
type seen struct {
	events chan event.Event
	err    chan error // what the loop ended with, nil if that was no error
}

// watching follows events until enough says so of one, or ctx ends. It returns once the loop runs.
func watching(ctx context.Context, t *testing.T, of func(context.Context) func(func(event.Event, error) bool)) seen {
	s := seen{make(chan event.Event, 1<<16), make(chan error, 1)}
	go func() {
		defer close(s.events)
		for e, err := range of(ctx) {
			if err != nil {
				s.err <- err
				return
			}
			s.events <- e
		}
		s.err <- nil
	}()
	return s
}

// until returns the events up to the first one that is enough.
func (s seen) until(t *testing.T, enough func(event.Event) bool) (all []event.Event) {
	t.Helper()
	patience := time.After(fibertest.Patience)
	for {
		select {
		case e, ok := <-s.events:
			if !ok {
				require.FailNow(t, "the events have ended", "%+v", all)
			}
			if all = append(all, e); enough(e) {
				return all
			}
		case <-patience:
			require.FailNow(t, "the event does not come", "%+v", all)
		}
	}
}

func of(pool *fiber.Pool) func(context.Context) func(func(event.Event, error) bool) {
	return func(ctx context.Context) func(func(event.Event, error) bool) { return pool.Events(ctx) }
}

// some returns the events that are of a type.
func some[T event.What](all []event.Event) (those []T) {
	for _, e := range all {
		if what, ok := e.What.(T); ok {
			those = append(those, what)
		}
	}
	return those
}

// ready has the loop run before the pool does anything: a first call, whose end it has seen.
func ready(t *testing.T, s seen, pool *fiber.Pool) {
	t.Helper()
	over := make(chan struct{})
	go func() { // the loop may not have begun
		for {
			select {
			case <-over:
				return
			default:
				fiber.Apply(context.Background(), pool, fibertest.Getpid, fibertest.None{})
			}
		}
	}()
	s.until(t, func(e event.Event) bool { _, ok := e.What.(event.CallEnded); return ok })
	close(over)
}

// ended is the end of a call of that function.
func ended(fn string) func(event.Event) bool {
	return func(e event.Event) bool {
		what, ok := e.What.(event.CallEnded)
		return ok && what.Func == fn
	}
}

// A loop over a pool's events sees its calls, each of its long tasks, its short ones together, and what becomes of its workers.
func TestEventsOfAPool(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	other := fibertest.NewPool(t, 1)
	ctx, stop := context.WithCancel(fibertest.Soon(t))
	s := watching(ctx, t, of(pool))
	ready(t, s, pool)

	squares := make([]int, 5000)
	_, err := fiber.Map(ctx, pool, fibertest.Square, squares)
	require.NoError(t, err)
	_, err = fiber.Map(ctx, other, fibertest.Square, squares)
	require.NoError(t, err)
	all := s.until(t, ended("square"))
	tasks, reports := 0, 0
	for _, what := range some[event.Tasks](all) {
		if what.Func != "square" {
			continue
		}
		require.Equal(t, pool.Stats().Processes[0].Name[:len("Pool")], what.Worker[:len("Pool")])
		require.Positive(t, what.Bytes)
		require.LessOrEqual(t, what.Longest, what.Took)
		require.False(t, what.Ended.Before(what.Began))
		tasks += what.Count
		reports++
	}
	require.Equal(t, len(squares), tasks)
	require.Less(t, reports, 1000, "short tasks come together")

	const nap = 20 * time.Millisecond
	_, err = fiber.Map(ctx, pool, fibertest.Nap, []time.Duration{nap, nap, nap, nap, nap}, fiber.ChunkSize(5))
	require.NoError(t, err)
	all = s.until(t, ended("nap"))
	index := map[int]bool{}
	for _, what := range some[event.Tasks](all) {
		if what.Func == "nap" {
			require.Equal(t, 1, what.Count)
			require.Equal(t, 1, what.Attempt)
			require.GreaterOrEqual(t, what.Took, nap)
			require.Equal(t, what.Took, what.Ended.Sub(what.Began))
			index[what.Index] = true
		}
	}
	require.Len(t, index, 5)
	for _, what := range some[event.CallBegan](all) {
		if what.Func == "nap" {
			require.Equal(t, 5, what.Tasks)
		}
	}

	_, err = fiber.Map(ctx, pool, fibertest.Fail, []string{"fine", "error", "fine"}, fiber.ChunkSize(1))
	require.Error(t, err)
	all = s.until(t, ended("fail"))
	failed := 0
	for _, what := range some[event.Tasks](all) {
		if what.Failed > 0 {
			require.Equal(t, "it is broken", what.Err)
			failed += what.Failed
		}
	}
	require.Equal(t, 1, failed)
	calls := some[event.CallEnded](all)
	require.Equal(t, 1, calls[len(calls)-1].Failed)
	require.Equal(t, "it is broken", calls[len(calls)-1].Err)

	_, err = fiber.Map(ctx, pool, fibertest.Shrink, nil)
	require.NoError(t, err)
	all = s.until(t, ended("shrink"))
	require.Len(t, some[event.CallBegan](all), 1, "a call of no tasks is one, too")

	for range fiber.IMap(ctx, pool, fibertest.Getpid, slices.Values(make([]fibertest.None, 100))) {
		break
	}
	all = s.until(t, ended("getpid"))
	calls = some[event.CallEnded](all)
	require.Empty(t, calls[len(calls)-1].Err, "a loop that is left is no failure")
	short, cancel := context.WithTimeout(ctx, nap)
	defer cancel()
	_, err = fiber.Map(short, pool, fibertest.Rest, []time.Duration{time.Hour})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	all = s.until(t, ended("rest"))
	calls = some[event.CallEnded](all)
	require.Equal(t, context.DeadlineExceeded.Error(), calls[len(calls)-1].Err)

	_, err = fiber.Apply(ctx, pool, fibertest.Die, int(syscall.SIGKILL))
	require.Error(t, err)
	all = s.until(t, ended("die"))
	lost := 0
	for _, what := range some[event.WorkerEnded](all) {
		require.True(t, what.Lost)
		require.Contains(t, what.Reason, "killed")
		require.Equal(t, "task 0 of die", what.Ran)
		lost++
	}
	require.Equal(t, 3, lost)
	for _, what := range some[event.ProcessEnded](all) {
		require.False(t, what.OK)
		require.Equal(t, []string{"last words"}, what.Words)
	}
	require.Len(t, some[event.ProcessEnded](all), 3)

	stop()
	require.ErrorIs(t, <-s.err, context.Canceled)
}

// nesting has pools inside each other.
var nesting *fiber.Func[int, int]

func init() { // it refers to itself
	nesting = fiber.Register("nesting", func(ctx context.Context, depth int) (int, error) {
		if depth == 0 {
			return 0, nil
		}
		pool, err := fiber.NewPool(1, fiber.WithName(fmt.Sprint("below-", depth)))
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		return fiber.Apply(ctx, pool, nesting, depth-1)
	})
}

// What happens in processes below the main one is seen there, down to their last words.
func TestEventsOfProcessesBelow(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithName("nested-events"))
	ctx, stop := context.WithCancel(fibertest.Soon(t))
	defer stop()
	s := watching(ctx, t, func(ctx context.Context) func(func(event.Event, error) bool) { return fiber.Events(ctx) })
	ready(t, s, pool)
	_, err := fiber.Apply(ctx, pool, nesting, 2)
	require.NoError(t, err)
	pool.Close()
	inPools := map[string]string{}
	s.until(t, func(e event.Event) bool {
		switch what := e.What.(type) {
		case event.CallEnded:
			if what.Func == "nesting" && what.Err == "" {
				inPools[what.Pool] = e.Process
			}
		case event.WorkerEnded:
			return what.Pool == "nested-events"
		}
		return false
	})
	require.Equal(t, "MainProcess", inPools["nested-events"])
	require.Regexp(t, `^nested-events-\d+$`, inPools["below-2"])
	require.Regexp(t, `^below-2-[\d.]+$`, inPools["below-1"])
}

// A loop that stands still delays nobody, and hears afterwards how much it has missed.
func TestEventsThatNobodyTakes(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ctx, stop := context.WithCancel(fibertest.Soon(t))
	defer stop()
	stands, goOn := make(chan struct{}), make(chan struct{})
	type sums struct{ tasks, missed int }
	result := make(chan sums, 1)
	go func() {
		var sum sums
		first := true
		for e, err := range pool.Events(ctx) {
			if err != nil {
				break
			}
			if first {
				close(stands)
				<-goOn
			}
			first = false
			switch what := e.What.(type) {
			case event.Tasks:
				if what.Func == "square" {
					sum.tasks += what.Count
				}
			case event.Missed:
				sum.missed += what.Tasks
			case event.CallEnded:
				if what.Func == "shrink" {
					result <- sum
					return
				}
			}
		}
		result <- sums{-1, -1}
	}()
	for begun := false; !begun; {
		_, err := fiber.Apply(ctx, pool, fibertest.Getpid, fibertest.None{})
		require.NoError(t, err)
		select {
		case <-stands:
			begun = true
		default:
		}
	}
	const calls = 7000 // three events each
	for i := range calls {
		out, err := fiber.Apply(ctx, pool, fibertest.Square, i)
		require.NoError(t, err)
		require.Equal(t, i*i, out)
	}
	close(goOn)
	var sum sums
	for done := false; !done; {
		_, err := fiber.Apply(ctx, pool, fibertest.Shrink, nil)
		require.NoError(t, err)
		select {
		case sum = <-result:
			done = true
		default:
		}
	}
	require.Positive(t, sum.missed)
	require.GreaterOrEqual(t, sum.tasks+sum.missed, calls)
}

// A loop that is left, or that panics, leaves nothing that watches.
func TestEventsOfALoopThatIsLeft(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	go func() {
		for range 1000 {
			fiber.Apply(context.Background(), pool, fibertest.Getpid, fibertest.None{})
		}
	}()
	for range pool.Events(fibertest.Soon(t)) {
		break
	}
	func() {
		defer func() { require.Equal(t, "in the loop", recover()) }()
		for range pool.Events(fibertest.Soon(t)) {
			panic("in the loop")
		}
	}()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range fiber.Events(over) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, err := range new(fiber.Pool).Events(over) {
		require.ErrorContains(t, err, "NewPool")
	}
	var none *fiber.Pool
	for _, err := range none.Events(over) {
		require.Error(t, err)
	}
}

var _ = fibertest.MainProgram("watched", func(ctx context.Context) error {
	begun := make(chan struct{})
	go func() {
		first := true
		for e, err := range fiber.Events(context.Background()) {
			if first {
				close(begun)
				first = false
			}
			switch what := e.What.(type) {
			case event.RunEnded:
				fmt.Println("the last event:", what.Err)
				time.Sleep(50 * time.Millisecond) // Main waits for it
			case event.WorkerEnded:
				fmt.Println("a worker has ended")
			}
			if err != nil {
				fmt.Println("an error:", err)
			}
		}
		fmt.Println("the loop is over")
	}()
	<-begun                       // the first sample
	pool, err := fiber.NewPool(3) //fiber:ignore unclosed the end of the run closes it
	if err == nil {
		err = pool.WaitUntilWorkersUp(ctx)
	}
	return cmp.Or(err, errors.New("on purpose"))
})

// The last event of a run says how it has ended, and the end of Main waits for the loop.
func TestEventsAtTheEnd(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "watched")
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Contains(t, x.Out.String(), strings.Repeat("a worker has ended\n", 3)+"the last event: on purpose\n")
	require.NotContains(t, x.Out.String(), "an error")
}

var mixed = fiber.Register("mixed", func(_ context.Context, d time.Duration) (int, error) {
	if d > 0 {
		time.Sleep(d)
	}
	return 0, nil
})

// Very short tasks are timed together; a long one that follows them does no harm, wherever it is in its chunk.
func TestEventsOfMixedTasks(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithMaxAttempts(1))
	ctx, stop := context.WithCancel(fibertest.Soon(t))
	defer stop()
	s := watching(ctx, t, of(pool))
	ready(t, s, pool)
	for n := 2; n <= 50; n++ {
		naps := make([]time.Duration, n)
		naps[n-1] = 3 * time.Millisecond
		_, err := fiber.Map(ctx, pool, mixed, naps, fiber.ChunkSize(n))
		require.NoError(t, err)
		done := 0
		for _, what := range some[event.Tasks](s.until(t, ended("mixed"))) {
			if what.Func != "mixed" {
				continue
			}
			if done += what.Count; what.Count == 1 {
				require.Equal(t, 1, what.Attempt)
			}
			require.LessOrEqual(t, what.Index+what.Count, n)
		}
		require.Equal(t, n, done)
	}
	require.Zero(t, pool.Stats().WorkersLost)
}
