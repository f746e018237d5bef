package worker

import (
	"context"
	"time"
)

// taskContext is the context of the tasks of a batch, which run one after another.
type taskContext struct {
	context.Context
	batch    *batch
	deadline time.Time // of the caller, zero for none: the pool cancels the batch then
}

// Deadline returns the caller's deadline.
func (c *taskContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Value returns the task that runs, for Current.
func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		i := max(0, c.batch.started()-1)
		task := Task{Func: string(c.batch.Func), Index: c.batch.Lo + i, Attempt: c.batch.Attempt}
		return task
	}
	return c.Context.Value(key)
}

type taskKey struct{}

// Task says which task of a call runs.
type Task struct {
	Func    string
	Index   int // in its call
	Attempt int // from 1
}

// Current returns the task whose function has been given ctx, or a context derived
// from it. It is meant to be called while that function runs.
func Current(ctx context.Context) (Task, bool) {
	t, ok := ctx.Value(taskKey{}).(Task)
	return t, ok
}
