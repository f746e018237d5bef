package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
)

// counter is an object of this program's own type.
type counter struct{ n int }

func (c *counter) Add(_ context.Context, n int) (int, error) {
	c.n += n
	return c.n, nil
}

// objects are the objects of a manager.
type objects struct {
	Dict    *fiber.Dict[int, int]
	Value   *fiber.Value[int]
	Lock    *fiber.Lock
	Counter *fiber.Proxy[*counter]
	Queue   *fiber.JoinableQueue[int]
	N       int // of the task that uses them
}

// used is the result of a task.
type used struct {
	Count int
	Got   []int
	Lost  string // the error if the manager was lost
}

var (
	counters = fiber.RegisterType("counter", func(context.Context, int) (*counter, error) { return &counter{}, nil })
	add      = fiber.RegisterMethod("add", (*counter).Add)

	countFunc = fiber.Register("count", func(ctx context.Context, o objects) (used, error) {
		n, err := o.count(ctx)
		return orLost(used{Count: n}, err)
	})

	dealFunc = fiber.Register("deal", func(ctx context.Context, o objects) (used, error) {
		got, err := o.deal(ctx)
		return orLost(used{Got: got}, err)
	})
)

// orLost makes the loss of a manager a result.
func orLost(out used, err error) (used, error) {
	if lostManager(err) {
		out.Lost, err = err.Error(), nil
	}
	return out, err
}

func lostManager(err error) bool {
	var lost *fiber.WorkerLostError
	return errors.As(err, &lost)
}

// count counts with every kind of object.
func (o objects) count(ctx context.Context) (int, error) {
	if err := o.Dict.Set(ctx, o.N, answer(o.N)); err != nil {
		return 0, err
	}
	if err := o.Lock.Acquire(ctx); err != nil && !errors.Is(err, fiber.ErrAbandoned) {
		return 0, err
	}
	n, err := o.Value.Get(ctx)
	if err == nil {
		time.Sleep(5 * time.Millisecond)
		err = o.Value.Set(ctx, n+1)
	}
	if err := errors.Join(err, o.Lock.Release(ctx)); err != nil {
		return 0, err
	}
	return fiber.Call(ctx, o.Counter, add, 1)
}

// deal gets the items in the queue, and marks them as done.
func (o objects) deal(ctx context.Context) (got []int, err error) {
	for n, err := o.Queue.Len(ctx); ; n, err = o.Queue.Len(ctx) {
		if err != nil || n == 0 {
			return got, err
		}
		once, cancel := context.WithTimeout(ctx, time.Second) // another consumer may be faster
		i, err := o.Queue.Get(once)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue
		}
		if err == nil {
			got = append(got, i)
			time.Sleep(5 * time.Millisecond)
			err = o.Queue.TaskDone(ctx)
		}
		if err != nil {
			return got, err
		}
	}
}

// managed is the present manager.
type managed struct {
	*fiber.Manager
	since  int
	rounds int
}

func (m *managed) close(s *soak) error {
	if m == nil {
		return nil
	}
	s.manager = nil
	return s.excuse("manager", managerKind, m.since, m.Manager.Close())
}

var errLost = errors.New("lost")

// managerRound lets the workers use objects of a manager, which is replaced every five rounds and after its loss.
func managerRound(s *soak, ctx context.Context, _ *rand.Rand) error {
	m := s.manager
	if m == nil {
		since := s.killer.mark(managerKind)
		manager, err := fiber.NewManager(ctx, fiber.WithName(managerKind))
		if err != nil {
			return s.excuse("manager", managerKind, since, err)
		}
		m = &managed{Manager: manager, since: since}
		s.manager = m
	}
	err := m.round(ctx, s)
	lost := lostManager(err) || errors.Is(err, errLost)
	if lost {
		err = s.excuse("manager", managerKind, m.since, err)
	}
	if m.rounds++; lost || m.rounds == 5 {
		err = errors.Join(err, m.close(s))
	}
	return err
}

// use runs tasks that use the objects.
func (s *soak) use(ctx context.Context, fn *fiber.Func[objects, used], o objects, tasks int) ([]used, error) {
	ins := make([]objects, tasks)
	for i := range ins {
		ins[i] = o
		ins[i].N = i
	}
	outs, err := fiber.Map(ctx, s.pool, fn, ins, fiber.ChunkSize(1))
	for _, out := range outs {
		s.did("manager", 1)
		if out.Lost != "" {
			return nil, fmt.Errorf("%w: %s", errLost, out.Lost)
		}
	}
	return outs, err
}

func (m *managed) round(ctx context.Context, s *soak) error {
	const tasks, queued = 10, 20
	since := s.killer.mark(workerKind)
	var o objects
	var errs [5]error
	o.Dict, errs[0] = fiber.NewDict[int, int](ctx, m.Manager)
	o.Value, errs[1] = fiber.NewValue(ctx, m.Manager, 0)
	o.Lock, errs[2] = fiber.NewLock(ctx, m.Manager)
	o.Counter, errs[3] = fiber.NewObject(ctx, m.Manager, counters, 0)
	o.Queue, errs[4] = fiber.NewJoinableQueue[int](ctx, m.Manager)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	outs, err := s.use(ctx, countFunc, o, tasks)
	if err != nil {
		return err
	}
	counts := map[int]bool{}
	for i, out := range outs {
		if v, there, err := o.Dict.Get(ctx, i); err != nil || !there || v != answer(i) {
			return fmt.Errorf("the dict has %d for %d, %v, %w", v, i, there, err)
		}
		if counts[out.Count] {
			return fmt.Errorf("two calls have counted %d", out.Count)
		}
		counts[out.Count] = true
	}
	n, err := o.Value.Get(ctx)
	if err != nil {
		return err
	}
	if n < tasks || n > tasks && !s.killer.since(workerKind, since) { // a task may have run twice
		return fmt.Errorf("%d tasks have counted to %d under a lock", tasks, n)
	}

	for i := range queued {
		if err := o.Queue.Put(ctx, i); err != nil {
			return err
		}
	}
	if outs, err = s.use(ctx, dealFunc, o, 2); err != nil {
		return err
	}
	got, err := o.deal(ctx) // items that came back after the workers were done
	if err != nil {
		return err
	}
	times := map[int]int{}
	for _, out := range append(outs, used{Got: got}) {
		for _, i := range out.Got {
			if times[i]++; times[i] > 1 {
				return fmt.Errorf("item %d of the joinable queue was delivered twice", i)
			}
		}
	}
	err = o.Queue.Join(ctx)
	if len(times) != queued { // a task that ran again has lost what it had got
		err = fmt.Errorf("items of the joinable queue are lost: %v are there; %w", times, err)
	}
	if lostManager(err) {
		return err
	}
	return s.excuse("manager", workerKind, since, err)
}
