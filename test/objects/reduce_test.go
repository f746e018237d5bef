//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// both returns the values of two.
func both[T any](ctx context.Context, pair [2]*fiber.Shared[T]) (a, b T, err error) {
	if a, err = pair[0].Get(ctx); err == nil {
		b, err = pair[1].Get(ctx)
	}
	return a, b, err
}

var (
	// bracket shows how texts were combined.
	bracket = fiber.Register("bracket", func(ctx context.Context, pair [2]*fiber.Shared[string]) (*fiber.Shared[string], error) {
		a, b, err := both(ctx, pair)
		if err != nil {
			return nil, err
		}
		return fiber.Share(ctx, "("+a+b+")")
	})

	// plus adds numbers up, one by one.
	plus = fiber.Register("plus", func(ctx context.Context, pair [2]*fiber.Shared[[]float64]) (*fiber.Shared[[]float64], error) {
		a, b, err := both(ctx, pair)
		if err != nil {
			return nil, err
		}
		sum := make([]float64, len(a))
		for i := range sum {
			sum[i] = a[i] + b[i]
		}
		return fiber.Share(ctx, sum)
	})

	// later returns the greater one of two, which it has not shared itself. It fails at "!".
	later = fiber.Register("later", func(ctx context.Context, pair [2]*fiber.Shared[string]) (*fiber.Shared[string], error) {
		a, b, err := both(ctx, pair)
		switch {
		case err != nil:
			return nil, err
		case b == "!":
			return nil, errors.New("no such text")
		case b > a:
			return pair[1], nil
		}
		return pair[0], nil
	})

	// betray is bracket for the lines of a file, which holds what was made before, and where. When two values have been made, it
	// kills who made the first one, once.
	betray = fiber.Register("betray", func(ctx context.Context, pair [2]*fiber.Shared[string]) (*fiber.Shared[string], error) {
		dir := os.Getenv(betrayKey)
		made, err := os.ReadFile(dir + "/made")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if strings.Count(string(made), "\n") == 2 && os.Mkdir(dir+"/killed", 0o700) == nil {
			for line := range strings.Lines(string(made)) {
				if maker := 0; strings.HasPrefix(line, "(01)") {
					if _, err := fmt.Sscanf(line, "(01) %d", &maker); err != nil {
						return nil, err
					}
					syscall.Kill(maker, syscall.SIGKILL)
					for fibertest.Running(maker) {
						time.Sleep(time.Millisecond)
					}
				}
			}
		}
		a, b, err := both(ctx, pair)
		if err != nil {
			return nil, err
		}
		text := "(" + strings.TrimSpace(a) + strings.TrimSpace(b) + ")"
		f, err := os.OpenFile(dir+"/made", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, text, os.Getpid())
			err = f.Close()
		}
		if err != nil {
			return nil, err
		}
		return fiber.Share(ctx, text+strings.Repeat(" ", 10_000)) // it is not so small that it survives
	})
)

const betrayKey = "TEST_BETRAY"

func shareAll[T any](t testing.TB, values []T) (all []*fiber.Shared[T]) {
	for _, v := range values {
		all = append(all, share(t, v))
	}
	return all
}

func valueOf[T any](t testing.TB, s *fiber.Shared[T], err error) T {
	t.Helper()
	require.NoError(t, err)
	v, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	return v
}

// Neighbours are combined in their order, in a tree that depends on their number alone.
func TestReduce(t *testing.T) {
	t.Parallel()
	want := map[int]string{1: "a", 2: "(ab)", 3: "((ab)c)", 5: "(((ab)(cd))e)", 7: "(((ab)(cd))((ef)g))", 8: "(((ab)(cd))((ef)(gh)))"}
	for workers := range 3 {
		pool := fibertest.NewPool(t, 1+workers)
		for n, text := range want {
			letters := shareAll(t, strings.Split("abcdefgh", "")[:n])
			var last fiber.Progress
			out, err := fiber.Reduce(fibertest.Soon(t), pool, bracket, letters, fiber.OnProgress(func(p fiber.Progress) { last = p }))
			require.Equal(t, text, valueOf(t, out, err))
			if n > 1 {
				require.Equal(t, []int{n - 1, n - 1}, []int{last.Done, last.Total})
			}
			for i, x := range letters {
				require.Equal(t, string(rune('a'+i)), valueOf(t, x, nil), "an input stays")
			}
		}
	}
}

// What fn returns may be one of the two. What it has shared goes when it has been used.
func TestReduceToAnArgument(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	texts := shareAll(t, []string{"d", "b", "g", "a", "c", "e", "f"})
	out, err := fiber.Reduce(fibertest.Soon(t), pool, later, texts)
	require.Equal(t, "g", valueOf(t, out, err))
	texts[2].Close()
	_, err = out.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

// Large values are added up where they lie.
func TestReduceOfLargeValues(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	xs := shareAll(t, slices.Repeat([][]float64{ascending(50_000)}, 20))
	out, err := fiber.Reduce(fibertest.Soon(t), pool, plus, xs)
	sum := valueOf(t, out, err)
	for i, x := range sum {
		require.Equal(t, float64(20*i), x)
	}
}

// Bad arguments, failures and inputs that are gone are errors that say which.
func TestReduceThatFails(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ctx := fibertest.Soon(t)
	_, err := fiber.Reduce(ctx, pool, later, nil)
	require.EqualError(t, err, "fiber: Reduce needs one value at least")
	letters := shareAll(t, []string{"a", "b", "c", "d", "e", "!", "g"})
	_, err = fiber.Reduce(ctx, pool, later, append(slices.Clone(letters), nil))
	var task *fiber.TaskError
	require.ErrorAs(t, err, &task)
	require.Equal(t, 7, task.Index)
	require.ErrorContains(t, err, "fiber: task 7: use of an uninitialised Shared; create it with Share")
	_, err = fiber.Reduce(ctx, pool, later, letters, fiber.Checkpoint(t.TempDir()+"/x"))
	require.ErrorContains(t, err, "fiber: Checkpoint is for Map")
	_, err = fiber.Reduce(ctx, pool, later, letters)
	require.ErrorAs(t, err, &task)
	require.Equal(t, []any{"later", 4}, []any{task.Func, task.Index})
	require.ErrorContains(t, err, "no such text")
	for _, n := range []int{1, 3} {
		closed := shareAll(t, []string{"a", "b", "c"}[:n])
		closed[n-1].Close()
		_, err = fiber.Reduce(ctx, pool, later, closed)
		require.ErrorAs(t, err, &task)
		require.Equal(t, n-1, task.Index)
		require.ErrorIs(t, err, fiber.ErrClosed)
	}
	ended, end := context.WithCancel(ctx)
	end()
	_, err = fiber.Reduce(ended, pool, later, letters[:2])
	require.Equal(t, context.Canceled, err)
	fibertest.StillWorks(t, pool)
}

// A value that is lost with its worker is made again.
func TestReduceThroughALoss(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, betrayKey+"="+t.TempDir()) {
		return
	}
	pool := fibertest.NewPool(t, 2)
	out, err := fiber.Reduce(fibertest.Soon(t), pool, betray, shareAll(t, []string{"0", "1", "2", "3"}))
	require.Equal(t, "((01)(23))", strings.TrimSpace(valueOf(t, out, err)))
	made, err := os.ReadFile(os.Getenv(betrayKey) + "/made")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count("\n"+string(made), "\n(01)"))
	require.Equal(t, 1, strings.Count(string(made), "(("))
}

// The values of workers that are replaced move to the main process.
func TestReduceWithReplacedWorkers(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithMaxTasksPerChild(1))
	xs, want := make([][]float64, 20), make([]float64, 20_000)
	for i := range xs {
		xs[i] = ascending(len(want))
		for j, x := range xs[i] {
			want[j] += x
		}
	}
	out, err := fiber.Reduce(fibertest.Soon(t), pool, plus, shareAll(t, xs))
	require.Equal(t, want, valueOf(t, out, err))
}
