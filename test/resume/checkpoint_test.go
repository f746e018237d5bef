//go:build unix

package resume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/journal"
	"github.com/fiber-go/fiber/test/fibertest"
)

// A noted task notes that it runs, and fails if it is told to.
type noted struct {
	N    int
	File string
	Nap  time.Duration
	Fail bool
	Try  bool // the first attempt fails
}

var note = fiber.Register("note", func(ctx context.Context, in noted) (string, error) {
	if err := (fibertest.Marking{File: in.File, Line: strconv.Itoa(in.N), Nap: in.Nap}).Append(); err != nil {
		return "", err
	}
	if task, _ := fiber.TaskFromContext(ctx); in.Fail || in.Try && task.Attempt == 1 {
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
	nap, _ := time.ParseDuration(os.Getenv("NAP"))
	for i := range ins {
		ins[i].Nap = nap
	}
	if at, err := strconv.Atoi(os.Getenv("FAIL")); err == nil {
		ins[at].Fail = true
	}
	var first fiber.Progress
	got, err := fiber.Map(ctx, pool, note, ins, fiber.Checkpoint(os.Getenv("FILE")), fiber.ChunkSize(1), fiber.OnProgress(func(p fiber.Progress) {
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
	dir := fibertest.OpenDir(t)
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

// However often a program is killed, each of its tasks' results is delivered once, and no task runs again but those that
// were under way. FIBER_TEST_KILLS is how often, and FIBER_TEST_SEED repeats the moments.
func TestCheckpointOfTheKilled(t *testing.T) {
	t.Parallel()
	kills, seed := fibertest.Setting(t, "FIBER_TEST_KILLS", 10), fibertest.Setting(t, fibertest.SeedKey, rand.Uint64())
	t.Logf("%s=%d", fibertest.SeedKey, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const tasks, workers = 60, 2
	for killed := uint64(0); killed < kills; {
		dir := fibertest.OpenDir(t)
		file, notes := filepath.Join(dir, "checkpoint"), filepath.Join(dir, "notes")
		env := []string{"FILE=" + file, "NOTES=" + notes, fmt.Sprint("TASKS=", tasks), "NAP=12ms"}
		again := 0
		for over := false; !over; {
			before := len(fibertest.Lines(t, notes))
			x := fibertest.Start(t, "map", env...)
			fibertest.Eventually(t, fibertest.Patience, func() bool {
				return ended(x) || len(fibertest.Lines(t, notes)) > before
			}, "no task runs")
			if killed < kills {
				time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
				killed++
				_ = x.Cmd.Process.Kill() // it may have ended
			}
			code := x.Wait(fibertest.Patience)
			over = code == 0
			require.True(t, over || killed > 0 && x.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled(), "%d: %s", code, &x.Err)
			kept := 0
			_, err := checkpoint.Look(file, func(r *checkpoint.Record, _ [][]byte) error {
				if r.Run == "" {
					kept += r.N - len(r.Without)
				}
				return nil
			})
			require.NoError(t, err)
			lines := fibertest.Lines(t, notes)
			require.LessOrEqual(t, fibertest.Distinct(lines)-kept, 2*workers, "results that are lost, of %d", kept)
			again = len(lines) - fibertest.Distinct(lines)
		}
		require.Equal(t, tasks, fibertest.Distinct(fibertest.Lines(t, notes)))
		t.Logf("%d kills so far, %d tasks of %d ran more than once", killed, again, tasks)
	}
}

func ended(x *fibertest.Execution) bool {
	select {
	case <-x.Done:
		return true
	default:
		return false
	}
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
	for i := range ins {
		ins[i].Try = i%7 == 3
	}
	opts := []fiber.CallOption{fiber.Checkpoint(os.Getenv("FILE")), fiber.Retries(1), fiber.Backoff(0, 0)}
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
		dir := fibertest.OpenDir(t)
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
		require.LessOrEqual(t, len(lines), 500+500/7+1+before-100, "what was delivered does not run again")

		x = fibertest.Start(t, "stream", env...)
		require.Zero(t, x.Wait(fibertest.Patience))
		require.Equal(t, "500 results, started 0\n", x.Out.String())
		require.Equal(t, lines, fibertest.Lines(t, notes))
	}
}

// refuses is a program that makes one call after another, and says how each has ended.
var _ = fibertest.MainProgram("calls", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	ins, _ := notedTasks(5, os.Getenv("NOTES"))
	file := fiber.Checkpoint(os.Getenv("FILE"))
	for _, how := range strings.Fields(os.Getenv("CALLS")) {
		var err error
		switch how {
		case "plain":
			_, err = fiber.Map(ctx, pool, note, ins, file)
		case "other-input":
			ins[3].N = 33
			_, err = fiber.Map(ctx, pool, note, ins, file)
		case "other-input-of-a-stream":
			ins[3].N = 33
			for _, err = range fiber.IMap(ctx, pool, note, slices.Values(ins), file) {
				if err != nil {
					break
				}
			}
		case "other-function":
			_, err = fiber.Map(ctx, pool, otherNote, ins, file)
		case "other-type":
			_, err = fiber.Map(ctx, pool, otherOut, ins, file)
		case "version":
			_, err = fiber.Map(ctx, pool, note, ins, file, fiber.CheckpointVersion("v2"))
		case "seed":
			_, err = fiber.Map(ctx, pool, note, ins, file, fiber.Seed(1))
		case "keys":
			_, err = fiber.Map(ctx, pool, note, ins, file, fiber.CheckpointKey(func(in noted) string { return fmt.Sprint(in.N) }))
		case "shorter":
			_, err = fiber.Map(ctx, pool, note, ins[:2], file)
		}
		fmt.Printf("%s: %v\n", how, err)
	}
	return nil
})

var otherNote = fiber.Register("other note", func(_ context.Context, in noted) (string, error) { return "", nil })
var otherOut = fiber.Register("note as a number", func(_ context.Context, in noted) (int, error) { return in.N, nil })

// What does not fit a file is an error that says so, before any task runs.
func TestCheckpointThatDoesNotFit(t *testing.T) {
	t.Parallel()
	dir := fibertest.OpenDir(t)
	path, notes := filepath.Join(dir, "checkpoint"), filepath.Join(dir, "notes")
	calls := func(t *testing.T, how string) string {
		x := fibertest.Start(t, "calls", "FILE="+path, "NOTES="+notes, "CALLS="+how)
		require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
		return x.Out.String()
	}
	require.Contains(t, calls(t, "plain plain"), "plain: <nil>\nplain: fiber: the checkpoint "+path+": this process has made a call with it, which has succeeded")
	for how, text := range map[string]string{
		"other-input":             "another input at index 3",
		"other-input-of-a-stream": "another input at index 3",
		"other-function":          "its function is note, not other note",
		"other-type":              "its function is note",
		"version":                 `its version is "", not "v2"`,
		"seed":                    "not 1; start with another file, or leave Seed out",
		"keys":                    "its way to know inputs is the index",
		"shorter":                 "<nil>",
	} {
		require.Contains(t, calls(t, how), text)
	}
	require.Len(t, fibertest.Lines(t, notes), 5)

	require.NoError(t, os.WriteFile(path, []byte("something else"), 0o600))
	require.Contains(t, calls(t, "plain"), "it is another kind of file")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "something else", string(text))
}

// once fails the first time.
var once = fiber.Register("once", func(_ context.Context, file string) (string, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_ = f.Close()
		return "", errors.New("failed")
	}
	return "result", nil
})

// Tasks of a stream that have failed run again in the next call, of the same process, too.
func TestFailuresOfAStreamRunAgain(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	dir := fibertest.OpenDir(t)
	path, ins := filepath.Join(dir, "checkpoint"), []string{filepath.Join(dir, "one"), filepath.Join(dir, "other")}
	require.NoError(t, os.WriteFile(ins[0], nil, 0o600)) // it does not fail
	for call, attempts := range [][]int{{1, 1}, {0, 1}} {
		ran := make([]int, 2)
		for r, err := range fiber.Results(fibertest.Soon(t), pool, once, slices.Values(ins), fiber.Checkpoint(path)) {
			require.NoError(t, err)
			require.Equal(t, call == 0 && r.Index == 1, r.Err != nil)
			ran[r.Index] = r.Attempts
		}
		require.Equal(t, attempts, ran)
	}
	for _, err := range fiber.Results(fibertest.Soon(t), pool, once, slices.Values(ins), fiber.Checkpoint(path)) {
		require.ErrorContains(t, err, "this process has made a call with it")
	}
}

// nests makes a call with a checkpoint of its own, and fails after the first one that has succeeded.
var nests = fiber.Register("nests", func(ctx context.Context, dir string) (string, error) {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	outs, err := fiber.Map(ctx, pool, once, []string{filepath.Join(dir, "one"), filepath.Join(dir, "other")}, fiber.Checkpoint(filepath.Join(dir, "nested")))
	if err != nil {
		return "", err
	}
	generation := 0
	if err := fiber.LoadState(filepath.Join(dir, "state"), &generation); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := fiber.SaveState(filepath.Join(dir, "state"), generation+1); err != nil || generation == 0 {
		return "", errors.Join(err, errors.New("failed after the call"))
	}
	return strings.Join(outs, " "), nil
})

var _ = fibertest.MainProgram("nested", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	dir := os.Getenv("DIR")
	_, err = fiber.Map(ctx, pool, once, []string{filepath.Join(dir, "first")}, fiber.Checkpoint(filepath.Join(dir, "file")))
	fmt.Println(err)
	outs, err := fiber.Map(ctx, pool, once, []string{filepath.Join(dir, "first")}, fiber.Checkpoint(filepath.Join(dir, "file")))
	fmt.Println(outs, err)
	out, err := fiber.Apply(ctx, pool, nests, dir, fiber.Retries(5), fiber.Backoff(0, 0))
	fmt.Println(out, err)
	return nil
})

// A call that has failed may be made again by the same process, and a task that runs again makes its own calls again.
func TestCheckpointAgain(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"", "inline"} {
		env := []string{"DIR=" + fibertest.OpenDir(t)}
		if backend != "" {
			env = append(env, "FIBER_BACKEND="+backend)
		}
		x := fibertest.Start(t, "nested", env...)
		require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
		require.Regexp(t, `failed\n\[result\] <nil>\nresult result <nil>\n$`, x.Out.String())
	}
}

var counts = fiber.Register("counts", func(ctx context.Context, q *fiber.SimpleQueue[int]) (int, error) { return 1, nil })
var queues = fiber.Register("queues", func(ctx context.Context, _ int) (*fiber.SimpleQueue[int], error) {
	return fiber.NewSimpleQueue[int]()
})

func TestCheckpointIsMisused(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	ctx := fibertest.Soon(t)
	file := func() fiber.CallOption { return fiber.Checkpoint(filepath.Join(t.TempDir(), "checkpoint")) }
	key := func(int) string { return "same" }
	square := func(opts ...fiber.CallOption) error {
		_, err := fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(3), opts...)
		return err
	}
	taken := filepath.Join(t.TempDir(), "taken")
	lock := fibertest.Sure(journal.Open(taken, 0))(t)
	defer lock.Close()
	for text, err := range map[string]error{
		"another program, or another call, has it open": square(fiber.Checkpoint(taken)),
		"it is no regular file":                         square(fiber.Checkpoint("/dev/null")),
		"Checkpoint: the path is empty":                 square(fiber.Checkpoint("")),
		"CheckpointVersion without Checkpoint":          square(fiber.CheckpointVersion("v")),
		"CheckpointSync(-1s)":                           square(file(), fiber.CheckpointSync(-time.Second)),
		"CheckpointKey: the function is nil":            square(file(), fiber.CheckpointKey[int](nil)),
		"CheckpointKey of a string: square takes a int": square(file(), fiber.CheckpointKey(func(s string) string { return s })),
		"the inputs 0 and 1 have the same key \"same\"": square(file(), fiber.CheckpointKey(key)),
		"no such file or directory":                     square(fiber.Checkpoint(filepath.Join(t.TempDir(), "none", "file"))),
		"is for Map, IMap, IMapUnordered and Results":   func() error { _, err := fiber.Apply(ctx, pool, fibertest.Square, 1, file()); return err }(),
		"an input refers to a queue": func() error {
			_, err := fiber.Map(ctx, pool, counts, []*fiber.SimpleQueue[int]{fibertest.NewQueue[int](t)}, file())
			return err
		}(),
		"a result refers to a queue": func() error { _, err := fiber.Map(ctx, pool, queues, []int{1}, file()); return err }(),
	} {
		require.ErrorContains(t, err, text)
	}
	for _, err := range fiber.IMap(ctx, pool, fibertest.Square, slices.Values(fibertest.Numbers(3)), file(), fiber.CheckpointKey(key)) {
		if err != nil {
			require.ErrorContains(t, err, "the inputs 0 and 1 have the same key")
		}
	}
	for _, err := range fiber.IMap(ctx, pool, queues, slices.Values([]int{1}), file()) {
		require.ErrorContains(t, err, "a result refers to a queue")
	}

	// Inputs that refer to something can't be kept, whatever their keys.
	byKey := fiber.CheckpointKey(func(*fiber.SimpleQueue[int]) string { return "q" })
	list := []*fiber.SimpleQueue[int]{fibertest.NewQueue[int](t)}
	_, err := fiber.Map(ctx, pool, counts, list, file(), byKey, fiber.CheckpointInputs())
	require.ErrorContains(t, err, "an input refers to a queue")
	for _, err := range fiber.IMap(ctx, pool, counts, slices.Values(list), file(), byKey, fiber.CheckpointInputs()) {
		require.ErrorContains(t, err, "an input refers to a queue")
	}

	// Keys are for inputs that refer to something.
	q := fibertest.NewQueue[int](t)
	require.Equal(t, []int{1}, fibertest.Sure(fiber.Map(ctx, pool, counts, []*fiber.SimpleQueue[int]{q}, file(), fiber.CheckpointKey(func(*fiber.SimpleQueue[int]) string { return "q" })))(t))
}
