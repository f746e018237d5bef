//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// badlyMade is an error whose methods panic when it is nil.
type badlyMade struct{ inner error }

func (b *badlyMade) Error() string { return "badly made: " + b.inner.Error() }
func (b *badlyMade) Unwrap() error { return b.inner }

// ownErrors is one of each kind of Fiber's own errors, in the way in which they
// wrap each other.
func ownErrors() []error {
	return []error{
		&fiber.ExitError{Name: "Process-9", ID: "9", Code: 3, Stderr: []string{"one", "two"}},
		&fiber.WorkerLostError{Worker: "Worker-9", ExitCode: 4, Stderr: []string{"three"}},
		&fiber.MismatchError{Reason: "it does not fit"},
		&fiber.LaunchError{Backend: "local", Job: "Job-9", Reason: "no room", Stderr: []string{"four"}, Err: fmt.Errorf("wrapped: %w", &fiber.EncodeError{Index: -1, Path: "X", Reason: "within"})},
		&fiber.RingError{Ring: "Ring-9", Rank: 5, Err: &fiber.WorkerLostError{Worker: "Rank-5", ExitCode: 6}},
	}
}

// errEndless does not fit into a message of 4 KiB, and its text has to travel whole.
var errEndless = fiber.RegisterError(errors.New("endless" + strings.Repeat(".", 5<<10)))

func fail(ctx context.Context, how string) (fibertest.None, error) {
	own := ownErrors()
	switch how {
	case "joined":
		return fibertest.None{}, errors.Join(append(own, fibertest.ErrDiverged)...)
	case "several %w":
		return fibertest.None{}, fmt.Errorf("%w, %w; %w and %w: %w: %w", own[4], own[3], fibertest.ErrDiverged, own[2], own[1], own[0])
	case "from below":
		p := fiber.NewProcess(panicking, fibertest.None{})
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, fmt.Errorf("below: %w", p.Join(ctx))
	case "panic":
		panic(errors.Join(own...))
	case "long":
		return fibertest.None{}, fmt.Errorf("%s: %w", strings.Repeat("é", 10<<20), errors.Join(own...))
	case "many":
		for range 10 {
			own = append(own, own...)
		}
		return fibertest.None{}, errors.Join(own...)
	case "deep":
		err := own[0]
		for range 100 {
			err = &fiber.RingError{Ring: "Ring", Rank: 1, Err: err}
		}
		return fibertest.None{}, err
	case "unsendable":
		return fibertest.None{}, errEndless
	case "badly made":
		return fibertest.None{}, (*badlyMade)(nil)
	}
	return fibertest.None{}, nil
}

var (
	failing   = fiber.Register("failing", fail)
	panicking = fiber.Register("panicking", func(context.Context, fibertest.None) (fibertest.None, error) {
		panic(errors.Join(ownErrors()...))
	})
)

func failed(t *testing.T, how string) *fiber.RemoteError {
	t.Helper()
	var remote *fiber.RemoteError
	require.ErrorAs(t, started(t, failing, how).Join(fibertest.Soon(t)), &remote)
	require.NotContains(t, remote.Error(), "\n")
	return remote
}

// Of several errors, each of Fiber's own is found where they arrive.
func TestAllErrorsTravel(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"joined", "several %w", "from below", "panic", "long", "many"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			remote := failed(t, how)
			require.Equal(t, how == "joined" || how == "several %w", errors.Is(remote, fibertest.ErrDiverged))
			var exit *fiber.ExitError
			require.ErrorAs(t, remote, &exit)
			require.Equal(t, ownErrors()[0], exit)
			var lost *fiber.WorkerLostError
			require.ErrorAs(t, remote, &lost)
			if how != "several %w" { // where the ring's is the first
				require.Equal(t, ownErrors()[1], lost)
			}
			require.ErrorAs(t, remote, new(*fiber.MismatchError))
			var launch *fiber.LaunchError
			require.ErrorAs(t, remote, &launch)
			require.Equal(t, ownErrors()[3].Error(), launch.Error())
			require.Equal(t, []string{"four"}, launch.Stderr)
			var encode *fiber.EncodeError
			require.ErrorAs(t, remote, &encode)
			require.Equal(t, "within", encode.Reason)
			var ring *fiber.RingError
			require.ErrorAs(t, remote, &ring)
			require.Equal(t, ownErrors()[4], ring)
		})
	}
}

// What a function returns cannot be too large, nor too deep.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	require.Less(t, len(failed(t, "long").Message), 65<<10)
	require.Contains(t, failed(t, "long").Message, "ééé… (20971")
	require.Less(t, len(fmt.Sprintf("%+v", failed(t, "many"))), 512<<10)
	var ring *fiber.RingError
	require.ErrorAs(t, failed(t, "deep"), &ring)
	require.Equal(t, 1, ring.Rank)
	require.Contains(t, failed(t, "badly made").Message, "nil")
}

// Where messages must be small, errors are, too: none is lost.
func TestErrorsInSmallMessages(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_MAX_MESSAGE=4KiB") {
		return
	}
	require.Contains(t, failed(t, "long").Message, "ééé… (20971")
	require.ErrorAs(t, failed(t, "joined"), new(*fiber.ExitError))

	// A process that cannot send its outcome says so, and has failed.
	var exit *fiber.ExitError
	require.ErrorAs(t, started(t, failing, "unsendable").Join(fibertest.Soon(t)), &exit)
	require.Equal(t, 1, exit.Code)
	said := strings.Join(exit.Stderr, "\n")
	require.Contains(t, said, "has ended, but its parent cannot be told: transport: message of ")
	require.Contains(t, said, "endless")
}

// An error is one line. With %+v it is all that there is to know: the stack of a
// panic, which is the user's own code, in processes below as well, and what lost
// processes have written last.
func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	p := started(t, failing, "from below")
	err := p.Join(fibertest.Soon(t))
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, err.Error(), fmt.Sprint(err))
	require.Equal(t, fmt.Sprintf("%q", err.Error()), fmt.Sprintf("%q", err))
	all := fmt.Sprintf("%+v", err)
	require.True(t, strings.HasPrefix(all, err.Error()+"\n"), all)
	require.Regexp(t, `: below: panicking in Process-[0-9.]+ panicked: Process-9 \(process 9\) ended`, all)
	for _, line := range []string{"\tone", "\ttwo", "\tthree", "\tfour"} {
		require.Contains(t, all+"\n", line+"\n")
	}
	require.Contains(t, all, "errors_test.go:")
	require.NotContains(t, all, "internal/guard")

	require.NotContains(t, ownErrors()[0].Error(), "one")
	require.Equal(t, ownErrors()[0].Error()+"\n\tone\n\ttwo", fmt.Sprintf("%+v", ownErrors()[0]))
}

// A program that ends with an error shows all of it.
var _ = fibertest.MainProgram("fails with a stack", func(ctx context.Context) error {
	p := fiber.NewProcess(failing, "panic")
	if err := p.Start(ctx); err != nil {
		return err
	}
	return fmt.Errorf("the program: %w", p.Join(ctx))
})

func TestMainPrintsAll(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "fails with a stack")
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Regexp(t, `^the program: fiber: failing in Process-1 panicked: .*\n`, x.Err.String())
	require.Contains(t, x.Err.String(), "errors_test.go:")
	require.Contains(t, x.Err.String(), "\tone\n\ttwo\n")
}

// endsGoroutine is an error whose text ends the goroutine that asks for it.
type endsGoroutine struct{}

func (endsGoroutine) Error() string { runtime.Goexit(); return "" }

var (
	endingError  = fiber.Register("endingError", func(context.Context, int) (int, error) { return 0, endsGoroutine{} })
	endingObject = fiber.RegisterType("endingObject", func(_ context.Context, fails bool) (endsGoroutine, error) {
		if fails {
			return endsGoroutine{}, endsGoroutine{}
		}
		return endsGoroutine{}, nil
	})
	endingMethod = fiber.RegisterMethod("fail", func(e endsGoroutine, _ context.Context, _ int) (int, error) { return 0, e })
	endingRing   = fiber.RegisterRing("endingRing", nil, func(_ context.Context, n *fiber.RingNode, _ int) error { return endsGoroutine{} })
)

// An error whose Error method calls runtime.Goexit is an error like any other.
func TestErrorThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	failed := func(err error) {
		t.Helper()
		require.ErrorAs(t, err, new(*fiber.RemoteError))
		require.ErrorContains(t, err, "runtime.Goexit, in a method of its error, a process_test.endsGoroutine")
	}
	p := fiber.NewProcess(endingError, 1)
	require.NoError(t, p.Start(ctx))
	failed(p.Join(ctx))
	m := fibertest.NewManager(t)
	_, err := fiber.NewObject(ctx, m, endingObject, true)
	failed(err)
	o, err := fiber.NewObject(ctx, m, endingObject, false)
	require.NoError(t, err)
	_, err = fiber.Call(ctx, o, endingMethod, 1)
	failed(err)
	failed(fiber.NewRing(2, endingRing).Run(ctx, 1))
	pool := fibertest.NewPool(t, 1, fiber.WithInitializer(endingError, 1))
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 1)
	require.ErrorContains(t, err, "runtime.Goexit, in a method of its error")
	_, err = fiber.Apply(ctx, fibertest.NewPool(t, 1), endingError, 1)
	require.ErrorContains(t, err, "runtime.Goexit")
}
