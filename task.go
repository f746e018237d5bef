package fiber

import (
	"context"

	"github.com/fiber-go/fiber/internal/pool/worker"
)

// TaskInfo says which task of a pool's call runs.
type TaskInfo struct {
	Func    string // the function's name
	Index   int    // of the input in its call, from 0
	Attempt int    // from 1; more when workers were lost that may have run the task, or Retries had it tried again
	Worker  string // this process's name
	Pool    string // the name of WithName, or Pool1 and so on; the process's for Go
}

// TaskFromContext returns the task whose function has received ctx, or a context that
// is derived from it. Call it while that function runs. ok is false where no pool has
// called the function.
func TaskFromContext(ctx context.Context) (info TaskInfo, ok bool) {
	if ctx == nil {
		return info, false
	}
	t, ok := worker.Current(ctx)
	if !ok {
		return info, false
	}
	info = TaskInfo{Func: t.Func, Index: t.Index, Attempt: t.Attempt, Worker: processName()}
	if proc := here(); proc != nil && proc.node.Parent != nil {
		info.Pool = proc.node.Parent.Assign.Pool
	}
	return info, true
}
