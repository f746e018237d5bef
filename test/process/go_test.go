//go:build unix

package process_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// whoIs says which process it is, and how many CPUs it has.
var whoIs = fiber.Register("whoIs", func(context.Context, fibertest.None) (string, error) {
	return fmt.Sprint(fiber.CurrentProcess().Name(), " ", runtime.GOMAXPROCS(0)), nil
}, meta.CPU(5))

// ownTask is the task that it is.
var ownTask = fiber.Register("ownTask", func(ctx context.Context, _ fibertest.None) (fiber.TaskInfo, error) {
	info, _ := fiber.TaskFromContext(ctx)
	return info, nil
})

// children are the names of the processes that a name begins.
func children(name string) (all []string) {
	for _, c := range fiber.ActiveChildren() {
		if c.Name() == name {
			all = append(all, name)
		}
	}
	return all
}

func TestOptionsOfGo(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	require.Equal(t, "going 3", fibertest.Sure(fiber.Go(ctx, whoIs, fibertest.None{}, fiber.WithName("going"), fiber.WithMeta(meta.CPU(3))).Get(ctx))(t))
	require.Regexp(t, `^Process-\d+ 5$`, fibertest.Sure(fiber.Go(ctx, whoIs, fibertest.None{}).Get(ctx))(t))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(children("going")) == 0 }, "its process is left")
}

// cleansUp takes some time after the end of its context.
var cleansUp = fiber.Register("cleansUp", func(ctx context.Context, file string) (fibertest.None, error) {
	if err := (fibertest.Marking{File: file, Line: "begun"}).Append(); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	time.Sleep(300 * time.Millisecond)
	return fibertest.None{}, fibertest.Marking{File: file, Line: "clean"}.Append()
})

func TestGo(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	info := fibertest.Sure(fiber.Go(ctx, ownTask, fibertest.None{}, fiber.WithName("a-job")).Get(ctx))(t)
	require.Equal(t, fiber.TaskInfo{Func: "ownTask", Attempt: 1, Worker: "a-job", Pool: "a-job"}, info)
	_, err := fiber.Go(ctx, fibertest.Fail, "sentinel").Get(ctx)
	require.ErrorIs(t, err, fibertest.ErrDiverged)
	require.ErrorAs(t, err, new(*fiber.RemoteError))
	_, err = fiber.Go(ctx, fibertest.Exit, 3).Get(ctx)
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 3, lost.ExitCode)
	_, err = fiber.Go(ctx, fibertest.Square, 1, fiber.WithName(" ")).Get(ctx)
	require.ErrorContains(t, err, "the name is empty")
	_, err = fiber.Go(ctx, fibertest.Square, 1, nil).Get(ctx)
	require.ErrorContains(t, err, "fiber: Go: option 1 of 1 is nil")
	_, err = fiber.Go(ctx, (*fiber.Func[int, int])(nil), 1).Get(ctx)
	require.ErrorContains(t, err, "uninitialised Func")
}

func TestGoCleansUp(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	f := fiber.Go(t.Context(), cleansUp, file)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it begins")
	f.Cancel()
	_, err := f.Get(fibertest.Soon(t))
	require.Equal(t, context.Canceled, err)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 2 }, "it may clean up")
}

// A function that heeds its context, or not, is gone after Cancel and after the end of ctx.
func TestGoCancel(t *testing.T) {
	t.Parallel()
	var all []string
	for i, fn := range []*fiber.Func[time.Duration, int]{fibertest.Rest, fibertest.Nap, fibertest.Rest, fibertest.Nap} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		name := fmt.Sprint("gone-", i)
		f := fiber.Go(ctx, fn, time.Hour, fiber.WithName(name))
		fibertest.Eventually(t, fibertest.Patience, func() bool { return len(children(name)) == 1 }, "it is up")
		if all = append(all, name); i < 2 {
			f.Cancel()
		} else {
			cancel()
		}
		_, err := f.Get(fibertest.Soon(t))
		require.Equal(t, context.Canceled, err)
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		return !slices.ContainsFunc(all, func(name string) bool { return len(children(name)) > 0 })
	}, "a process is left")
}
