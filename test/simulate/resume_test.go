package simulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

var (
	// ruleResumed: what was kept is right, and is not computed again.
	ruleResumed = rule("resumed")
	// ruleSaved: the last state that was saved is there.
	ruleSaved = rule("saved")
)

// diskFaults are the kinds of faults that befall the disk.
var diskFaults = []string{"full", "unsynced"}

// resuming is the work of some runs, besides others: an experiment that is started again until it is through.
const resuming = "resume"

// experiment tells each of its processes what to do.
type experiment struct {
	Book  int
	Tasks int
	Start int // which one of its processes this is
	Seed  uint64
	Keys  bool
	Sync  time.Duration
}

// experimentBook notes what its processes have done.
type experimentBook struct {
	mu      sync.Mutex
	process *sim.Process      // the last one
	crashed bool              // one has been, with what it had not synced
	got     map[int]time.Time // when results were delivered
	safe    map[int]bool      // those that no process may compute again from now on
	start   int               // the process that may
	tried   int               // the last state that was to be saved
	saved   int               // the last that was
}

// step is a task of an experiment.
type step struct {
	Book  int
	Index int
	Sleep time.Duration
}

// starts tells tasks which of the experiment's processes their worker belongs to.
var starts = fiber.RegisterState("start", func(_ context.Context, start int) (int, error) { return start, nil }, nil)

// onPurpose is the error of steps that fail in the first process.
const onPurpose = "fails on purpose"

var steps = fiber.Register("step", func(ctx context.Context, s step) (string, error) {
	w, b := here(), bookOf[*experimentBook](s.Book)
	start, err := starts.Get(ctx)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	if start == b.start && b.safe[s.Index] {
		w.breach(ruleResumed, "step %d runs again in process %d of the experiment", s.Index, start)
	}
	b.mu.Unlock()
	select {
	case <-time.After(s.Sleep):
	case <-ctx.Done():
	}
	if start == 0 && s.Index%17 == 5 {
		return "", errors.New(onPurpose)
	}
	return fmt.Sprint("step ", s.Index), ctx.Err()
})

var experiments *fiber.Func[experiment, int]

func init() {
	experiments = fiber.Register("experiment", func(ctx context.Context, e experiment) (int, error) { return e.run(ctx) })
	works[resuming] = func(ctx context.Context, w *world, r *rand.Rand) error {
		b := &experimentBook{got: map[int]time.Time{}, safe: map[int]bool{}}
		e := experiment{Book: w.book(b), Tasks: 1 + w.amount(r, 200, 2000), Seed: r.Uint64(), Keys: r.IntN(2) == 0}
		if r.IntN(3) > 0 {
			e.Sync = time.Second
		}
		for begun := time.Now(); ; e.Start++ {
			n, err := fiber.Go(ctx, experiments, e).Get(ctx)
			if err == nil && n != e.Tasks {
				w.breach(ruleResumed, "an experiment of %d steps has %d", e.Tasks, n)
			}
			b.over(w, e)
			switch {
			case err == nil || w.shut.Load() || time.Since(begun) > forever:
				w.checkError("an experiment", err)
				return nil
			case ctx.Err() != nil:
				return ctx.Err()
			}
			w.run.Log("process %d of the experiment has failed: %v", e.Start, err)
			b.mu.Lock()
			crashed := b.process == nil || b.process.Killed()
			b.mu.Unlock()
			if w.harmed() == 0 && !crashed && !slices.ContainsFunc([]string{onPurpose, "no space left", "input/output error"}, func(text string) bool { return strings.Contains(err.Error(), text) }) {
				w.breach(ruleErrors, "process %d of an experiment: %v", e.Start, err)
			}
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		}
	}
}

// over notes what no other process may compute, after the end of one.
func (b *experimentBook) over(w *world, e experiment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return
	}
	with := func(kind string) bool {
		return slices.ContainsFunc(w.run.Faults, func(f sim.Fault) bool { return f.Kind == kind })
	}
	late := time.Duration(0)
	if b.crashed || with("machine") {
		late = e.Sync + moment
	}
	for i, at := range b.got {
		if !with("unsynced") && !b.process.Alive() && !b.process.Ended().Before(at.Add(late)) {
			b.safe[i] = true
		}
	}
	clear(b.got)
}

func (e experiment) run(ctx context.Context) (int, error) {
	w, b := here(), bookOf[*experimentBook](e.Book)
	r := rand.New(rand.NewPCG(e.Seed, uint64(e.Start)))
	checkpoint, path := fmt.Sprintf("/simulated/%d", e.Book), fmt.Sprintf("/simulated/%d.state", e.Book)
	generation := 0
	err := fiber.LoadState(path, &generation)
	b.mu.Lock()
	b.process, b.start = sim.Here(), e.Start
	switch {
	case err != nil && !(errors.Is(err, fs.ErrNotExist) && b.saved == 0):
		w.breach(ruleSaved, "LoadState: %v, after %d", err, b.saved)
	case generation < b.saved || generation > b.tried:
		w.breach(ruleSaved, "the state is %d after %d, of %d", generation, b.saved, b.tried)
	case generation > 0:
		w.bit(ruleSaved)
	}
	b.tried = max(b.tried, generation)
	b.mu.Unlock()
	pool, err := fiber.NewPool(1+r.IntN(3), fiber.WithState(starts, e.Start), fiber.WithMaxAttempts(10))
	if err != nil {
		return 0, err
	}
	defer pool.Terminate()
	ins := make([]step, e.Tasks)
	sleeps := rand.New(rand.NewPCG(e.Seed, 1<<32)) // the same in each process
	for i := range ins {
		ins[i] = step{e.Book, i, time.Duration(sleeps.IntN(20)) * time.Millisecond}
	}
	opts := []fiber.CallOption{fiber.Checkpoint(checkpoint)}
	if e.Sync == 0 {
		opts = append(opts, fiber.CheckpointSync(0))
	}
	if e.Keys {
		r.Shuffle(len(ins), func(i, j int) { ins[i], ins[j] = ins[j], ins[i] })
		opts = append(opts, fiber.CheckpointKey(func(s step) string { return fmt.Sprint(s.Index) }))
	}
	fails := r.IntN(3 * len(ins) / 2) // after so many results
	done := map[int]bool{}
	take := func(s step, out string, worker string) (crash bool) {
		if done[s.Index] || out != fmt.Sprint("step ", s.Index) {
			w.breach(ruleResumed, "step %d has the result %q", s.Index, out)
		}
		done[s.Index] = true
		b.mu.Lock()
		defer b.mu.Unlock()
		if worker == "" {
			w.bit(ruleResumed)
		} else if sim.Here().Alive() {
			b.got[s.Index] = time.Now()
		}
		if len(done) == fails && e.Start < 5 {
			if r.IntN(2) == 0 {
				b.crashed = true
				sim.Here().Crash()
			} else {
				sim.Here().Kill()
			}
			return true
		}
		return false
	}
	if e.Start%3 == 2 {
		outs, err := fiber.Map(ctx, pool, steps, ins, opts...)
		for i, out := range outs {
			take(ins[i], out, "")
		}
		return len(outs), err
	}
	var failed error
	for x, err := range fiber.Results(ctx, pool, steps, slices.Values(ins), opts...) {
		if err != nil {
			return 0, err
		}
		if x.Err != nil {
			failed = x.Err
			continue
		}
		if take(x.In, x.Out, x.Worker) {
			return 0, ctx.Err()
		}
		if len(done)%10 == 0 {
			generation++
			b.mu.Lock()
			b.tried = max(b.tried, generation)
			b.mu.Unlock()
			err := fiber.SaveState(path, generation)
			b.mu.Lock()
			if err == nil && sim.Here().Alive() {
				b.saved = generation
			}
			b.mu.Unlock()
		}
	}
	return len(done), failed
}
