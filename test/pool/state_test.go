//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// A kept thing is a state that counts what it is used for. It cannot travel.
type kept struct {
	ctx  context.Context
	name string
	uses int
	note func(string) error
	over chan struct{}
}

type keeping struct{ Name, File, How string }

func keep(ctx context.Context, in keeping) (*kept, error) {
	k := &kept{ctx: ctx, name: in.Name, over: make(chan struct{})}
	k.note = func(what string) error { return fibertest.Marking{File: in.File, Line: what + in.Name}.Append() }
	switch in.How {
	case "waits":
		err := k.note("open:")
		<-ctx.Done()
		return nil, errors.Join(err, k.note("told:"), ctx.Err())
	case "fail":
		return nil, errors.New("it cannot be opened")
	case "panic":
		panic("opening")
	case "fails to close", "hangs":
		k.name = in.How
	}
	return k, k.note("open:")
}

func unkeep(ctx context.Context, k *kept) error {
	if k.ctx.Err() != nil {
		return errors.New("its context has ended too early")
	}
	until, _ := ctx.Deadline()
	err := errors.Join(k.note("close:"), ctx.Err())
	switch {
	case time.Until(until) <= 0:
		return errors.New("there is no time")
	case k.name == "fails to close":
		return errors.New("it will not close")
	case k.name == "hangs":
		select {}
	}
	return err
}

var (
	first  = fiber.RegisterState("first", keep, unkeep)
	second = fiber.RegisterState("second", keep, unkeep)
	third  = fiber.RegisterState("third", keep, nil)
)

var usesStates = fiber.Register("uses states", func(ctx context.Context, replace bool) (use []string, err error) {
	for _, s := range []*fiber.State[keeping, *kept]{first, second, third} {
		k, err := s.Get(ctx)
		if err != nil {
			use = append(use, err.Error())
			continue
		}
		k.uses++
		use = append(use, fmt.Sprint(k.name, k.uses))
	}
	if replace {
		err = fiber.ErrReplaceWorker
	}
	return use, err
})

func TestState(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	pool, err := fiber.NewPool(1, fiber.WithState(first, keeping{"a", file, ""}), fiber.WithState(second, keeping{"b", file, ""}))
	require.NoError(t, err)
	for n := range 3 {
		use := fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, usesStates, false))(t)
		require.Equal(t, []string{fmt.Sprint("a", n+1), fmt.Sprint("b", n+1),
			"fiber: the state third is not open here: call Get in the tasks of a pool that is made with WithState for it"}, use)
	}
	life := []string{"open:a", "open:b", "close:b", "close:a"}
	require.Equal(t, life[:2], fibertest.Lines(t, file))
	_, err = fiber.Apply(fibertest.Soon(t), pool, usesStates, true)
	require.ErrorIs(t, err, fiber.ErrReplaceWorker)
	require.Equal(t, "a1", fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, usesStates, false))(t)[0])
	pool.Close()
	lines := fibertest.Lines(t, file)
	slices.Sort(lines) // the second worker may start before the first has ended
	slices.Sort(life)
	require.Equal(t, slices.Sorted(slices.Values(append(life, life...))), lines)
	_, err = first.Get(t.Context())
	require.ErrorContains(t, err, "the state first is not open here")
}

func TestStateThatFails(t *testing.T) {
	t.Parallel()
	for how, text := range map[string]string{"fail": "it cannot be opened", "panic": "opening"} {
		file := fibertest.TempFile(t)
		pool := fibertest.NewPool(t, 2, fiber.WithState(second, keeping{"b", file, ""}), fiber.WithState(first, keeping{"a", file, how}))
		_, err := fiber.Apply(fibertest.Soon(t), pool, usesStates, false)
		require.ErrorContains(t, err, text)
		pool.Close()
		lines := fibertest.Lines(t, file)
		require.NotEmpty(t, lines)
		slices.Sort(lines)
		require.Equal(t, slices.Concat(fibertest.SlicesOf("close:b", len(lines)/2), fibertest.SlicesOf("open:b", len(lines)/2)), lines)
	}
}

// Whoever opens a state is told that the pool is closed.
func TestStateIsOpeningAtClose(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	pool := fibertest.NewPool(t, 1, fiber.WithState(first, keeping{"a", file, "waits"}))
	f := fiber.ApplyAsync(fibertest.Soon(t), pool, usesStates, false)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it is not opened")
	f.Cancel()
	pool.Close()
	require.Equal(t, []string{"open:a", "told:a"}, fibertest.Lines(t, file))

	_, err := fiber.NewPool(1, fiber.WithState(first, keeping{}), fiber.WithState(first, keeping{}))
	require.ErrorContains(t, err, "the state first is given twice")
}

// A state that does not close holds up no worker for longer than shutdown_grace.
func TestStateThatDoesNotClose(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	pool, err := fiber.NewPool(1, fiber.WithState(first, keeping{"a", file, ""}), fiber.WithState(second, keeping{"b", file, "hangs"}),
		fiber.WithState(third, keeping{"c", file, ""}), fiber.WithMaxTasksPerChild(1))
	require.NoError(t, err)
	for range 2 {
		require.Equal(t, []string{"a1", "hangs1", "c1"}, fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, usesStates, false))(t))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		fibertest.CloseSoon(t, pool)
	}()
	<-closed
	require.Contains(t, fibertest.Lines(t, file), "close:b")
}
