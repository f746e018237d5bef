package fiber

import (
	"context"

	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/meta"
)

// Go runs a function in a process of its own and returns a future of its result. The
// process has the name and the resources of opts, or else those of the function. It
// ends when the function has returned; its last output may come after the result.
// The errors are ApplyAsync's; the function is started once, and never again.
//
// Future.Cancel, and the end of ctx, end the function's context and resolve the
// future at once. If the function goes on for cancel_grace, its process is killed.
func Go[In, Out any](ctx context.Context, fn *Func[In, Out], in In, opts ...ProcessOption) *Future[Out] {
	spec := tree.Spec{Name: nextProcess(), Resources: fn.Resources()}
	pool, err := (*Pool)(nil), configured("Go", &spec, opts, ProcessOption.process)
	if err == nil {
		has := option(func(_ *string, r *meta.Resources) error {
			*r = spec.Resources
			return nil
		})
		pool, err = newPool(spec.Name, 1, []PoolOption{WithMaxAttempts(1), has})
	}
	if err != nil {
		f := newFuture[Out]()
		f.reject(err)
		return f
	}
	f := ApplyAsync(ctx, pool, fn, in)
	f.then(func() { go pool.Close() })
	return f
}
