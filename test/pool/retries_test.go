//go:build unix

package pool_test

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

// A try fails some times before it succeeds, in some way.
type try struct {
	Fails int
	How   string
	File  string // it notes its process, and the index, in it
	Gate  string
}

var errFlaky = fiber.RegisterError(errors.New("flaky"))

// tries returns which attempt has succeeded.
var tries = fiber.Register("tries", func(ctx context.Context, in try) (int, error) {
	task, _ := fiber.TaskFromContext(ctx)
	if in.File != "" {
		if err := (fibertest.Marking{File: in.File, Line: fmt.Sprintf("%d:%s", task.Index, task.Worker)}).Append(); err != nil {
			return 0, err
		}
	}
	if task.Attempt > in.Fails {
		return task.Attempt, fibertest.Await(ctx, in.Gate)
	}
	switch in.How {
	case "panic":
		panic("help")
	case "late":
		<-ctx.Done()
		return 0, ctx.Err()
	case "replace":
		return 0, fmt.Errorf("broken: %w", fiber.ErrReplaceWorker)
	}
	return 0, fmt.Errorf("at attempt %d: %w", task.Attempt, errFlaky)
})

// soonAgain leaves next to no pauses.
var soonAgain = fiber.Backoff(time.Millisecond, 4*time.Millisecond)

func TestRetries(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	ins := make([]try, 60)
	attempts, again := make([]int, len(ins)), 0
	for i := range ins {
		ins[i] = try{Fails: i % 3, How: []string{"", "panic", "late", ""}[i%4]}
		attempts[i] = i%3 + 1
		again += i % 3
	}
	var last fiber.Progress
	opts := []fiber.CallOption{fiber.Retries(2), soonAgain, fiber.Timeout(fibertest.Paced(300 * time.Millisecond)), fiber.OnProgress(func(p fiber.Progress) { last = p })}
	require.Equal(t, attempts, fibertest.Sure(fiber.Map(fibertest.Soon(t), pool, tries, ins, opts...))(t))
	require.Equal(t, []int{len(ins), 0, again}, []int{last.Done, last.Failed, last.Retried})
	stats := pool.Stats()
	require.Equal(t, []int{len(ins), 0, again}, []int{stats.Done, stats.Failed, stats.Retried})

	for name, over := range map[string]func(context.Context, *fiber.Pool) []int{
		"IMap": func(ctx context.Context, pool *fiber.Pool) (outs []int) {
			for out, err := range fiber.IMap(ctx, pool, tries, slices.Values(ins), opts...) {
				require.NoError(t, err)
				outs = append(outs, out)
			}
			return outs
		},
		"Results": func(ctx context.Context, pool *fiber.Pool) []int {
			outs := make([]int, len(ins))
			for r, err := range fiber.Results(ctx, pool, tries, slices.Values(ins), opts...) {
				require.NoError(t, errors.Join(err, r.Err))
				require.Zero(t, outs[r.Index])
				require.Equal(t, r.Out, r.Attempts)
				outs[r.Index] = r.Out
			}
			return outs
		},
	} {
		require.Equal(t, attempts, over(fibertest.Soon(t), pool), name)
	}
	require.Equal(t, 3, fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 2}, opts...))(t))
}

// The error is that of the last attempt, and other tasks come to their end.
func TestRetriesAreSpent(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithMaxAttempts(1))
	ins := make([]try, 40)
	ins[17].Fails = 4
	outs, err := fiber.Map(fibertest.Soon(t), pool, tries, ins, fiber.Retries(3), soonAgain)
	var task *fiber.TaskError
	require.ErrorAs(t, err, &task)
	require.Equal(t, []int{17, 4}, []int{task.Index, task.Attempt})
	require.ErrorContains(t, err, "at attempt 4: flaky")
	require.Equal(t, fibertest.SlicesOf(1, 17), outs)

	ins[17].Fails = 3
	outs = fibertest.Sure(fiber.Map(fibertest.Soon(t), pool, tries, ins, fiber.Retries(3), soonAgain))(t)
	require.Equal(t, 4, outs[17])

	_, err = fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 9}) // none by default
	require.ErrorContains(t, err, "at attempt 1: flaky")
	require.Equal(t, 3+3, pool.Stats().Retried)
}

func TestRetryIf(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	asked := make(chan error, 10)
	flaky := fiber.RetryIf(func(err error) bool {
		asked <- err
		return errors.Is(err, errFlaky)
	})
	require.Equal(t, 2, fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 1}, fiber.Retries(1), flaky, soonAgain))(t))
	var task *fiber.TaskError
	require.ErrorAs(t, <-asked, &task)
	require.Equal(t, []any{0, 1, "tries"}, []any{task.Index, task.Attempt, task.Func})

	_, err := fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 1, How: "panic"}, fiber.Retries(1), flaky, soonAgain)
	require.ErrorContains(t, err, "panicked: help")
	_, err = fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 1}, fiber.Retries(1), fiber.RetryIf(func(error) bool { panic("no idea") }))
	require.ErrorContains(t, err, "RetryIf: panic: no idea")

	// It may use the pool.
	busy := fiber.RetryIf(func(error) bool {
		return fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 2))(t) == 4
	})
	require.Equal(t, 3, fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 2}, fiber.Retries(2), busy, soonAgain))(t))

	// What cannot travel stays so.
	begun := pool.Stats()
	_, err = fiber.Map(fibertest.Soon(t), pool, refuses, []fibertest.Unwilling{{}}, fiber.Retries(5))
	require.ErrorContains(t, err, "not me")
	require.Equal(t, begun.Retried, pool.Stats().Retried)
}

var refuses = fiber.Register("refuses", func(context.Context, fibertest.Unwilling) (int, error) { return 1, nil })

// The next attempt is on another worker; when all others stay busy, on the same one.
func TestRetriesElsewhere(t *testing.T) {
	t.Parallel()
	pool, file, gate := fibertest.NewPool(t, 2), fibertest.TempFile(t), fibertest.TempFile(t)
	fibertest.Warm(t, pool)
	opts := []fiber.CallOption{fiber.Retries(3), fiber.Backoff(0, 0)}
	fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 3, File: file}, opts...))(t)
	lines := fibertest.Lines(t, file)
	require.Len(t, lines, 4)
	for i := range 3 {
		require.NotEqual(t, lines[i], lines[i+1])
	}

	waiting := fiber.ApplyAsync(fibertest.Soon(t), pool, tries, try{Gate: gate, File: file})
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 5 }, "the other worker is idle")
	fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 1, File: file}, opts...))(t)
	lines = fibertest.Lines(t, file)
	require.Len(t, lines, 7)
	require.Equal(t, lines[5], lines[6])
	require.NotEqual(t, lines[4], lines[5])
	fibertest.OpenGate(t, gate)
	fibertest.Sure(waiting.Get(fibertest.Soon(t)))(t)
}

// A call that ends while a task pauses is over at once; Close waits for the others.
func TestRetriesThatPause(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	long := []fiber.CallOption{fiber.Retries(1), fiber.Backoff(time.Hour, time.Hour)}
	pausing := func() bool { s := pool.Stats(); return s.Queued == 1 && s.Idle == 1 }
	ctx, cancel := context.WithCancel(t.Context())
	f := fiber.ApplyAsync(ctx, pool, tries, try{Fails: 1}, long...)
	fibertest.Eventually(t, fibertest.Patience, pausing, "no task pauses")
	cancel()
	_, err := f.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, pool.Stats().Queued)
	require.Zero(t, pool.Stats().Retried, "it did not run again")

	soon := fiber.ApplyAsync(t.Context(), pool, tries, try{Fails: 1}, fiber.Retries(1), fiber.Backoff(time.Second, time.Second))
	f = fiber.ApplyAsync(t.Context(), pool, tries, try{Fails: 1}, long...)
	fibertest.Eventually(t, fibertest.Patience, func() bool { s := pool.Stats(); return s.Queued == 2 && s.Idle == 1 }, "the tasks have not failed")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		_, _ = soon.Get(fibertest.Soon(t))
		cancel()
	}()
	require.ErrorContains(t, pool.Shutdown(ctx), "1 tasks were given up")
	require.Equal(t, 2, fibertest.Sure(soon.Get(t.Context()))(t))
	_, err = f.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

// What was on its way to a worker that is replaced was not begun there.
func TestAttemptsAreExact(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithConcurrency(2))
	ins := make([]try, 500)
	for i := range ins {
		if i%50 == 7 {
			ins[i] = try{Fails: 1, How: "replace"}
		}
	}
	for r, err := range fiber.Results(fibertest.Soon(t), pool, tries, slices.Values(ins), fiber.Retries(1), fiber.Backoff(0, 0)) {
		require.NoError(t, errors.Join(err, r.Err))
		require.Equal(t, 1+ins[r.Index].Fails, r.Attempts)
		require.Equal(t, r.Attempts, r.Out)
	}
	require.Equal(t, 10, pool.Stats().Retried)
}

// Tasks that pause keep no others of a stream from running.
func TestStreamGoesOnWhileTasksPause(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ins := make([]try, 300)
	for i := range 20 {
		ins[i].Fails = 1
	}
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	defer cancel()
	n := 0
	for _, err := range fiber.IMapUnordered(ctx, pool, tries, slices.Values(ins), fiber.Retries(1), fiber.Backoff(time.Hour, time.Hour)) {
		require.NoError(t, err)
		if n++; n == 280 {
			break
		}
	}
}

func TestErrReplaceWorker(t *testing.T) {
	t.Parallel()
	pool, file := fibertest.NewPool(t, 1, fiber.WithConcurrency(2)), fibertest.TempFile(t)
	gate := fibertest.TempFile(t)
	beside := fiber.ApplyAsync(fibertest.Soon(t), pool, tries, try{Gate: gate, File: file})
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it has not begun")
	_, err := fiber.Apply(fibertest.Soon(t), pool, tries, try{Fails: 1, How: "replace", File: file})
	require.ErrorIs(t, err, fiber.ErrReplaceWorker)
	require.ErrorContains(t, err, "broken")

	ins := fibertest.SlicesOf(try{File: file}, 30)
	ins[11].Fails, ins[11].How = 1, "replace"
	outs := fibertest.Sure(fiber.Map(fibertest.Soon(t), pool, tries, ins, fiber.Retries(1), soonAgain))(t)
	require.Equal(t, 2, outs[11])
	fibertest.OpenGate(t, gate)
	fibertest.Sure(beside.Get(fibertest.Soon(t)))(t)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(pool.Stats().Processes) == 1 }, "the replaced ones have not ended")
	lines := fibertest.Lines(t, file)
	require.Equal(t, lines[0], lines[1], "beside each other")
	for _, line := range lines[2:] {
		_, first, _ := strings.Cut(lines[0], ":")
		require.NotContains(t, line, first, "a worker that is to be replaced has begun another task")
	}
	stats := pool.Stats()
	require.Equal(t, []int{3, 0, 0}, []int{stats.WorkersStarted, stats.WorkersLost, stats.WorkersKilled})
}
