package worker

import (
	"context"
	"math"
	"time"
)

// taskContext is the context of the tasks of a batch, which run one after another.
type taskContext struct {
	context.Context
	batch    *batch
	deadline time.Time // of the caller; zero for none
}

// deadlineGrace is how long after the caller's deadline a batch ends by itself, should
// the pool not have cancelled it. The caller is to be the first to know.
const deadlineGrace = time.Second

// Deadline returns the caller's deadline.
func (c *taskContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Err returns DeadlineExceeded if the caller's deadline is why the batch was cancelled:
// that news takes as long as the batch did, more or less.
func (c *taskContext) Err() error {
	err := c.Context.Err()
	if err != nil && !c.deadline.IsZero() && time.Until(c.deadline) < 10*time.Millisecond {
		err = context.DeadlineExceeded
	}
	return err
}

// Value returns the task that runs, for Current.
func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		i := max(0, c.batch.started()-1)
		task := Task{Func: string(c.batch.Func), Index: c.batch.Lo + i, Attempt: c.batch.Attempt, Seed: c.batch.Seed, Key: uint64(c.batch.Lo + i), batch: c.batch}
		if c.batch.Keys != nil {
			task.Key = c.batch.Keys[i]
		}
		return task
	}
	return c.Context.Value(key)
}

type taskKey struct{}

// Task says which task of a call runs.
type Task struct {
	Func    string
	Index   int    // in its call
	Attempt int    // from 1
	Seed    uint64 // of the call
	Key     uint64 // of the task in its call: the index, or what the call has in its place
	batch   *batch
}

// Call counts the calls that the task makes, from 1.
func (t Task) Call() uint64 {
	calls := &t.batch.calls
	for own := uint64(t.Index-t.batch.Lo) << 32; ; {
		old := calls.Load()
		n := old + 1
		if old>>32 != own>>32 {
			n = own + 1
		}
		if calls.CompareAndSwap(old, n) {
			return n & math.MaxUint32
		}
	}
}

// Current returns the task whose function has been given ctx, or a context derived
// from it. It is meant to be called while that function runs.
func Current(ctx context.Context) (Task, bool) {
	t, ok := ctx.Value(taskKey{}).(Task)
	return t, ok
}
