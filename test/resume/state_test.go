//go:build unix

package resume_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// An experiment is what a program keeps from one generation to the next.
type experiment struct {
	Generation int
	Theta      []float64
	Best       map[string]float64
}

func experimentAt(generation int) experiment {
	e := experiment{generation, make([]float64, 1000), map[string]float64{"score": float64(generation)}}
	for i := range e.Theta {
		e.Theta[i] = float64(generation * i)
	}
	return e
}

func TestSaveState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	var e experiment
	require.ErrorIs(t, fiber.LoadState(path, &e), fs.ErrNotExist)
	for g := range 3 {
		require.NoError(t, fiber.SaveState(path, experimentAt(g)))
		require.NoError(t, fiber.LoadState(path, &e))
		require.Equal(t, experimentAt(g), e)
	}

	var other struct{ Generation string }
	err := fiber.LoadState(path, &other)
	require.ErrorContains(t, err, path+" holds a ")
	require.ErrorContains(t, err, "Generation string")
	require.ErrorContains(t, fiber.LoadState[int](path, nil), "the pointer is nil")
	require.ErrorContains(t, fiber.SaveState(path, make(chan int)), "chan") //fiber:ignore travels that is what is tested
	require.ErrorIs(t, fiber.SaveState(filepath.Join(path, "below"), 1), syscall.ENOTDIR)
	require.ErrorContains(t, fiber.SaveState(path, any(fibertest.NewQueue[int](t))), "ends with this run")
	require.ErrorContains(t, fiber.SaveState(path, fibertest.Unwilling{}), "not me")
	require.NoError(t, fiber.LoadState(path, &e))
	require.Equal(t, 2, e.Generation, "after all that")

	require.NoError(t, os.WriteFile(path, []byte("hello"), 0o644))
	require.NoError(t, fiber.LoadState(path, &e))
	require.Equal(t, 1, e.Generation)
	require.NoError(t, os.WriteFile(path+".before", nil, 0o644))
	require.ErrorContains(t, fiber.LoadState(path, &e), path+": it is another kind of file")
	require.ErrorContains(t, fiber.SaveState(path, e), "it is another kind of file")
	require.Equal(t, 1, e.Generation)
}

var saves = fiber.Register("saves", func(_ context.Context, path string) (string, error) {
	if err := fiber.SaveState(path, 1); err != nil {
		return err.Error(), nil
	}
	return "", nil
})

// What would end with a container is refused there.
func TestStateInAContainer(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	for path, contained := range map[string]bool{filepath.Join(fibertest.OpenDir(t), "state"): false, "/tmp/state" + strconv.FormatUint(rand.Uint64(), 36): true, "/dev/shm/state" + strconv.FormatUint(rand.Uint64(), 36): true} {
		if contained {
			t.Cleanup(func() { os.Remove(path) })
		}
		said := fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, saves, path))(t)
		if contained && os.Getenv("FIBER_TEST_BACKEND") != "" {
			require.Contains(t, said, path+" is a file of this container, and ends with it; use a volume")
		} else {
			require.Empty(t, said)
		}
	}
}

// generations is a program that goes on where the last one was killed.
var _ = fibertest.MainProgram("generations", func(context.Context) error {
	path := os.Getenv("STATE")
	var e experiment
	if err := fiber.LoadState(path, &e); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for {
		e = experimentAt(e.Generation + 1)
		if err := fiber.SaveState(path, e); err != nil {
			return err
		}
		fmt.Println(e.Generation)
	}
})

// However often a program is killed, what it has saved is there, whole.
func TestStateOfTheKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	saved := 0
	for range 20 {
		x := fibertest.Start(t, "generations", "STATE="+path)
		fibertest.Eventually(t, fibertest.Patience, func() bool { return strings.Count(x.Out.String(), "\n") > 3 }, "nothing is saved")
		time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond)
		x.SignalRoot(syscall.SIGKILL)
		<-x.Done
		lines := strings.Fields(x.Out.String())
		last, err := strconv.Atoi(lines[len(lines)-1])
		require.NoError(t, err)
		require.Greater(t, last, saved)
		var e experiment
		require.NoError(t, fiber.LoadState(path, &e))
		require.Equal(t, experimentAt(e.Generation), e)
		require.Contains(t, []int{last, last + 1}, e.Generation)
		saved = e.Generation
	}
}

// What is loaded instead is logged.
var _ = fibertest.MainProgram("loads", func(context.Context) error {
	var n int
	err := fiber.LoadState(os.Getenv("STATE"), &n)
	fmt.Println("loaded", n)
	return err
})

func TestDamagedStateIsLogged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, fiber.SaveState(path, 1))
	require.NoError(t, fiber.SaveState(path, 2))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(whole, []byte("int"), []byte("inu"), 1), 0o644))
	x := fibertest.Start(t, "loads", "STATE="+path, "FIBER_LOG_LEVEL="+slog.LevelWarn.String())
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "loaded 1\n", x.Out.String())
	require.Contains(t, x.Err.String(), "the version before the last")
	require.Contains(t, x.Err.String(), path+": at byte 0 it is damaged")
}
