package main

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
	"time"

	"github.com/fiber-go/fiber"
)

// experiment is a stream of chores with a checkpoint, which is broken off and gone on with until it is through.
type experiment struct {
	dir    string
	serial int
	ins    []chore
	due    map[int]bool // the chores whose results have not been delivered
}

// checkpoint is the file of this experiment.
func (e *experiment) checkpoint() string {
	return filepath.Join(e.dir, fmt.Sprintf("checkpoint%d", e.serial))
}

// next begins another experiment when this one is through.
func (e *experiment) next(r *rand.Rand) (err error) {
	switch {
	case len(e.due) > 0:
		return nil
	case e.dir == "":
		e.dir, err = os.MkdirTemp("", "soak-")
	default:
		err = os.Remove(e.checkpoint())
	}
	e.serial++
	e.ins, _ = someChores(r)
	e.due = map[int]bool{}
	for i := range e.ins {
		e.ins[i].N, e.due[i] = i, true
		if r.IntN(20) == 0 {
			e.ins[i].Tries = 1
		}
	}
	return err
}

// resumeRound goes on with the experiment until a random moment. What was delivered in an earlier round does not run again,
// and the state is the one that was saved last.
func resumeRound(s *soak, ctx context.Context, r *rand.Rand) error {
	e := &s.experiment
	if err := e.next(r); err != nil {
		return err
	}
	state, saved := filepath.Join(e.dir, "state"), 0
	if err := fiber.LoadState(state, &saved); err != nil && !(errors.Is(err, fs.ErrNotExist) && e.serial == 1) || saved > e.serial {
		return fmt.Errorf("the state is %d in experiment %d; %w", saved, e.serial, err)
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
	defer cancel()
	r.Shuffle(len(e.ins), func(i, j int) { e.ins[i], e.ins[j] = e.ins[j], e.ins[i] })
	left, seen := 1+r.IntN(2*chores), map[int]bool{}
	for res, err := range fiber.Results(within, s.pool, choreFunc, slices.Values(e.ins), fiber.Checkpoint(e.checkpoint()),
		fiber.CheckpointKey(func(c chore) string { return strconv.Itoa(c.N) })) {
		if err != nil {
			if errors.Is(err, within.Err()) {
				break
			}
			return err
		}
		n := res.In.N
		switch {
		case seen[n]:
			return fmt.Errorf("result %d came twice", n)
		case !e.due[n] && res.Attempts > 0:
			return fmt.Errorf("task %d ran again, although its result had been delivered", n)
		case res.Err != nil && res.In.Tries > 0: // it runs again in the next round, and succeeds
			e.ins[res.Index].Tries = 0
		case res.Err != nil || res.Out != answer(n):
			return fmt.Errorf("result %d is %d, not %d; %w", n, res.Out, answer(n), res.Err)
		default:
			delete(e.due, n)
		}
		seen[n] = true
		s.did("resume", 1)
		if left--; left == 0 {
			break
		}
	}
	return fiber.SaveState(state, e.serial)
}
