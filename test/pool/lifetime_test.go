//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// deadly ends the process that decodes it.
type deadly struct{}

func (deadly) MarshalBinary() ([]byte, error) { return []byte{1}, nil }
func (*deadly) UnmarshalBinary([]byte) error  { os.Exit(7); return nil }

var (
	meetDeadly    = fiber.Register("meetDeadly", func(context.Context, deadly) (fibertest.None, error) { return fibertest.None{}, nil })
	meetUnwilling = fiber.Register("meetUnwilling", func(context.Context, fibertest.Unwilling) (fibertest.None, error) { return fibertest.None{}, nil })
	countKeys     = fiber.Register("countKeys", func(_ context.Context, m map[string]int) (int, error) {
		time.Sleep(time.Millisecond)
		return len(m), nil
	})
	sleepFirst = fiber.Register("sleepFirst", func(_ context.Context, d time.Duration) (fibertest.None, error) {
		time.Sleep(d)
		return fibertest.None{}, nil
	})
	dieLater = fiber.Register("dieLater", func(_ context.Context, d time.Duration) (fibertest.None, error) {
		time.AfterFunc(d, func() { os.Exit(1) })
		return fibertest.None{}, nil
	})
)

// Workers that are not wanted any more end while their initializers run.
func TestResizeWhileWorkersInitialise(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3, fiber.WithInitializer(sleepFirst, time.Minute))
	up := make(chan error, 1)
	go func() { up <- pool.WaitUntilWorkersUp(fibertest.Within(t, 100*time.Millisecond)) }()
	require.ErrorIs(t, <-up, context.DeadlineExceeded)
	require.ErrorIs(t, pool.Resize(fibertest.Within(t, time.Second), 1), context.DeadlineExceeded, "it is not up either")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(pool.Stats().Processes) == 1 }, "surplus workers end")
	pool.Terminate()
}

// An input that ends the process which decodes it is given up as a poison
// task is.
func TestPoisonThatIsDecoded(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	_, err := fiber.Apply(fibertest.Soon(t), pool, meetDeadly, deadly{})
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 3, lost.Attempt)
	require.Equal(t, 7, lost.ExitCode)
	out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 3)
	require.NoError(t, err)
	require.Equal(t, 9, out)
}

// A process that was to end after a task that could not be sent ends.
func TestUnsendableTasksLeaveNoProcesses(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithMaxTasksPerChild(1))
	for range 4 {
		_, err := fiber.Map(fibertest.Soon(t), pool, meetUnwilling, []fibertest.Unwilling{{}})
		var encode *fiber.EncodeError
		require.ErrorAs(t, err, &encode)
		require.ErrorContains(t, err, "not me")
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(pool.Stats().Processes) <= 1 }, "one worker is left")
}

// So does one whose last task does not.
func TestStuckTasksLeaveNoProcesses(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithMaxTasksPerChild(1))
	for range 4 {
		_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Nap, time.Hour, fiber.Timeout(20*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(pool.Stats().Processes) <= 1 }, "the stuck ones are ended")
}

// Workers that die as soon as they are up are counted, and not started again
// at full speed.
func TestWorkersThatDieYoung(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithInitializer(dieLater, 10*time.Millisecond))
	wanted, enough := context.WithCancel(fibertest.Soon(t))
	defer enough()
	go func() { // one that dies before it was up is no loss, and three of them fail who waits
		for wanted.Err() == nil {
			pool.WaitUntilWorkersUp(wanted)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().WorkersLost >= 4 }, "they are counted")
	begun, before := time.Now(), pool.Stats().WorkersStarted
	time.Sleep(time.Second)
	again := pool.Stats().WorkersStarted - before
	require.Less(t, float64(again), 12*time.Since(begun).Seconds(), "no pause between them")
	pool.Terminate()
}

// Once Map has returned its inputs are the caller's again. The race detector
// tells.
func TestInputsAreTheCallersAgain(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ins := make([]map[string]int, 500)
	for i := range ins {
		ins[i] = map[string]int{}
		for j := range 50 {
			ins[i][fmt.Sprint(j)] = j
		}
	}
	_, err := fiber.Map(fibertest.Soon(t), pool, countKeys, ins[:10])
	require.NoError(t, err)
	for k := range 60 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+k%7)*time.Millisecond)
		fiber.Map(ctx, pool, countKeys, ins, fiber.ChunkSize(50))
		cancel()
		for i := range ins {
			ins[i]["x"] = k
		}
	}
}

// Whatever an OnProgress does, the pool works on, and ends.
func TestOnProgressThatBlocks(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	gate, inside := make(chan fibertest.None), make(chan fibertest.None, 10)
	stuck := fiber.MapAsync(ctx, pool, fibertest.Square, fibertest.Numbers(10), fiber.OnProgress(func(fiber.Progress) {
		inside <- fibertest.None{}
		<-gate
	}))
	<-inside
	out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 3)
	require.NoError(t, err)
	require.Equal(t, 9, out)
	cancel()
	_, err = stuck.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)

	again := make(chan int, 10) // it may use the pool
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(10), fiber.OnProgress(func(p fiber.Progress) {
		done := p.Done
		out, _ := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, done)
		again <- out
	}))
	require.NoError(t, err)
	require.NotEmpty(t, again)
	fibertest.CloseSoon(t, pool)
	close(gate)
}

// What goes wrong in an OnProgress is its call's error.
func TestOnProgressThatPanics(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ways := map[string]func(fiber.CallOption) error{
		"Apply": func(o fiber.CallOption) error {
			_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1, o)
			return err
		},
		"ApplyAsync": func(o fiber.CallOption) error {
			_, err := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, 1, o).Get(fibertest.Soon(t))
			return err
		},
		"Map": func(o fiber.CallOption) error {
			_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(10), o)
			return err
		},
		"a long Map": func(o fiber.CallOption) error { // it fails at once
			_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Rest, []time.Duration{0, time.Hour}, o)
			return err
		},
		"MapAsync": func(o fiber.CallOption) error {
			_, err := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(10), o).Get(fibertest.Soon(t))
			return err
		},
	}
	for order, imap := range imaps {
		ways["IMap, "+order] = func(o fiber.CallOption) (last error) {
			for _, err := range imap(fibertest.Soon(t), pool, fibertest.Square, slices.Values(fibertest.Numbers(300)), o) {
				require.NoError(t, last, "something came after the error")
				last = err
			}
			return last
		}
		ways["endless IMap, "+order] = func(o fiber.CallOption) (last error) {
			for _, err := range imap(fibertest.Soon(t), pool, fibertest.Square, endless(new(atomic.Int64)), o) {
				require.NoError(t, last, "something came after the error")
				last = err
			}
			return last
		}
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			err := way(fiber.OnProgress(func(fiber.Progress) { panic("no bar") }))
			require.ErrorContains(t, err, "OnProgress: panic: no bar")
			require.NotContains(t, err.Error(), "\n")
			require.Regexp(t, `^fiber: OnProgress: panic: no bar\n\t.*TestOnProgressThatPanics.*\n\t\t.*lifetime_test.go:`, fmt.Sprintf("%+v", err), "it does not say where")
			err = way(fiber.OnProgress(func(fiber.Progress) { panic(fibertest.ErrDiverged) }))
			require.ErrorIs(t, err, fibertest.ErrDiverged)
			err = way(fiber.OnProgress(func(fiber.Progress) { runtime.Goexit() }))
			require.ErrorContains(t, err, "OnProgress: the function called runtime.Goexit")
		})
	}
	fibertest.StillWorks(t, pool)
}

func TestPoolShutdown(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(20*time.Millisecond, 10))
	require.NoError(t, pool.Shutdown(fibertest.Soon(t)))
	require.Len(t, fibertest.Sure(f.Get(fibertest.Soon(t)))(t), 10, "it finishes its work")
	require.NoError(t, pool.Shutdown(fibertest.Soon(t)))
	over, cancel := context.WithCancel(fibertest.Soon(t))
	cancel()
	for range 50 {
		require.NoError(t, fibertest.NewPool(t, 1).Shutdown(over), "it has no work")
	}

	pool = fibertest.NewPool(t, 1)
	fibertest.Warm(t, pool)
	file := fibertest.TempFile(t)
	running := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Mark, fibertest.Marking{File: file, Line: "x", Nap: time.Hour})
	behind := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(7))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it begins")
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	defer cancel()
	time.AfterFunc(10*time.Millisecond, cancel)
	err := pool.Shutdown(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "8 tasks were given up")
	_, err = running.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = behind.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.Empty(t, pool.Stats().Processes, "workers are left")

	// Another one ends it before it can finish.
	for _, end := range []func(*fiber.Pool){(*fiber.Pool).Terminate, func(p *fiber.Pool) {
		require.ErrorIs(t, p.Shutdown(over), context.Canceled)
	}} {
		pool := fibertest.NewPool(t, 1)
		running := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(time.Hour, 3))
		fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Running > 0 }, "it begins")
		shut := make(chan error, 1)
		go func() { shut <- pool.Shutdown(fibertest.Soon(t)) }()
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			brief, cancel := context.WithTimeout(fibertest.Soon(t), time.Millisecond)
			defer cancel()
			_, err := fiber.Apply(brief, pool, fibertest.Square, 1)
			return errors.Is(err, fiber.ErrClosed)
		}, "it closes")
		end(pool)
		for _, err := range []error{<-shut, pool.Shutdown(fibertest.Soon(t))} {
			require.ErrorIs(t, err, fiber.ErrClosed)
			require.ErrorContains(t, err, "3 tasks were given up")
		}
		_, err = running.Get(fibertest.Soon(t))
		require.ErrorIs(t, err, fiber.ErrClosed)
	}
}
