//go:build unix

package resume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// A noted task notes that it runs, and fails if it is told to.
type noted struct {
	N    int
	File string
	Nap  time.Duration
	Fail bool
}

var note = fiber.Register("note", func(ctx context.Context, in noted) (string, error) {
	if err := (fibertest.Marking{File: in.File, Line: strconv.Itoa(in.N), Nap: in.Nap}).Append(); err != nil {
		return "", err
	}
	if in.Fail {
		return "", errors.New("failed")
	}
	return fmt.Sprint("result of ", in.N), nil
})

func notedTasks(n int, file string) (ins []noted, outs []string) {
	for i := range n {
		ins = append(ins, noted{N: i, File: file})
		outs = append(outs, fmt.Sprint("result of ", i))
	}
	return ins, outs
}

// elsewhere is a program that maps with a checkpoint, in a run of its own.
var _ = fibertest.MainProgram("map", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	n, _ := strconv.Atoi(os.Getenv("TASKS"))
	ins, outs := notedTasks(n, os.Getenv("NOTES"))
	for i := range ins {
		ins[i].Nap = time.Duration(i%5) * time.Millisecond
	}
	if at, err := strconv.Atoi(os.Getenv("FAIL")); err == nil {
		ins[at].Fail = true
	}
	var first fiber.Progress
	got, err := fiber.Map(ctx, pool, note, ins, fiber.Checkpoint(os.Getenv("FILE")), fiber.OnProgress(func(p fiber.Progress) {
		if first.Total == 0 {
			first = p
		}
	}))
	fmt.Println("began with", first.Done, "started", pool.Stats().WorkersStarted)
	if err != nil {
		return err
	}
	if !slices.Equal(got, outs) {
		return fmt.Errorf("the results are %v", got)
	}
	return nil
})

// A run goes on where the last one has failed, and a file that is complete starts no worker.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	env := []string{"FILE=" + filepath.Join(dir, "checkpoint"), "NOTES=" + notes, "TASKS=40"}
	x := fibertest.Start(t, "map", append(env, "FAIL=30")...)
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Contains(t, x.Err.String(), "failed")
	before := len(fibertest.Lines(t, notes))
	require.GreaterOrEqual(t, before, 31)

	x = fibertest.Start(t, "map", env...)
	require.Zero(t, x.Wait(fibertest.Patience))
	var began, started int
	_, err := fmt.Sscanf(x.Out.String(), "began with %d started %d", &began, &started)
	require.NoError(t, err)
	require.GreaterOrEqual(t, began, 30)
	lines := fibertest.Lines(t, notes)
	require.Equal(t, 40-began, len(lines)-before)

	x = fibertest.Start(t, "map", env...)
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "began with 40 started 0\n", x.Out.String())
	require.Equal(t, lines, fibertest.Lines(t, notes))
}

// However often a program is killed, each of its tasks' results is delivered once, and few run twice.
func TestCheckpointOfTheKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	const tasks = 600
	env := []string{"FILE=" + filepath.Join(dir, "checkpoint"), "NOTES=" + notes, fmt.Sprint("TASKS=", tasks)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	kills := 0
	for ; ; kills++ {
		x := fibertest.Start(t, "map", env...)
		select {
		case <-x.Done:
			require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
		case <-time.After(time.Duration(50+r.IntN(200)) * time.Millisecond):
			x.SignalRoot(syscall.SIGKILL)
			<-x.Done
			continue
		}
		break
	}
	lines := fibertest.Lines(t, notes)
	require.Equal(t, tasks, fibertest.Distinct(lines))
	t.Logf("%d kills, %d tasks ran more than once: %s", kills, len(lines)-tasks, strings.Join(lines[:min(3, len(lines))], " "))
}

// streams is a program that does so with a stream, whose inputs have keys where KEYS is set: it then reads them backwards.
var _ = fibertest.MainProgram("stream", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	n, _ := strconv.Atoi(os.Getenv("TASKS"))
	most, _ := strconv.Atoi(os.Getenv("MOST"))
	ins, _ := notedTasks(n, os.Getenv("NOTES"))
	opts := []fiber.CallOption{fiber.Checkpoint(os.Getenv("FILE"))}
	if os.Getenv("KEYS") != "" {
		opts = append(opts, fiber.CheckpointKey(func(in noted) string { return strconv.Itoa(in.N) }))
		if most == 0 {
			slices.Reverse(ins)
		}
	}
	seen := map[int]bool{}
	for r, err := range fiber.Results(ctx, pool, note, slices.Values(ins), opts...) {
		if err != nil {
			return err
		}
		if seen[r.Index] || r.Err != nil || r.In != ins[r.Index] || r.Out != fmt.Sprint("result of ", r.In.N) {
			return fmt.Errorf("%+v", r)
		}
		seen[r.Index] = true
		if len(seen) == most {
			break
		}
	}
	fmt.Println(len(seen), "results, started", pool.Stats().WorkersStarted)
	return nil
})

func TestCheckpointOfAStream(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"", "keys"} {
		dir := t.TempDir()
		notes := filepath.Join(dir, "notes")
		env := []string{"FILE=" + filepath.Join(dir, "checkpoint"), "NOTES=" + notes, "TASKS=500", "KEYS=" + keys}
		x := fibertest.Start(t, "stream", append(env, "MOST=100")...)
		require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
		before := len(fibertest.Lines(t, notes))
		require.GreaterOrEqual(t, before, 100)

		x = fibertest.Start(t, "stream", env...)
		require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
		lines := fibertest.Lines(t, notes)
		require.Equal(t, 500, fibertest.Distinct(lines))
		require.LessOrEqual(t, len(lines), 500+before-100, "what was delivered does not run again")

		x = fibertest.Start(t, "stream", env...)
		require.Zero(t, x.Wait(fibertest.Patience))
		require.Equal(t, "500 results, started 0\n", x.Out.String())
		require.Equal(t, lines, fibertest.Lines(t, notes))
	}
}
