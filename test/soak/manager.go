package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fiber-go/fiber"
)

// counter is an object of this program's own type.
type counter struct{ n int }

func (c *counter) Add(_ context.Context, n int) (int, error) {
	c.n += n
	return c.n, nil
}

// keeping is for a task that uses managed objects.
type keeping struct {
	Dict    *fiber.Dict[int, int]
	Value   *fiber.Value[int]
	Lock    *fiber.Lock
	Counter *fiber.Proxy[*counter]
	N       int
}

// kept is what came of it.
type kept struct {
	Count int
	Got   []int
	Lost  string // the error if the manager was lost
}

var (
	counters = fiber.RegisterType("counter", func(context.Context, int) (*counter, error) { return &counter{}, nil })
	add      = fiber.RegisterMethod("add", (*counter).Add)

	keepFunc = fiber.Register("keep", func(ctx context.Context, k keeping) (kept, error) {
		count, err := k.use(ctx)
		return answered(kept{Count: count}, err)
	})

	// dealFunc gets what is in a queue, and is done with it.
	dealFunc = fiber.Register("deal", func(ctx context.Context, q *fiber.JoinableQueue[int]) (kept, error) {
		var out kept
		for n, err := q.Len(ctx); ; n, err = q.Len(ctx) {
			if err != nil || n == 0 {
				return answered(out, err)
			}
			once, cancel := context.WithTimeout(ctx, time.Second) // another one may be faster
			i, err := q.Get(once)
			cancel()
			if err == nil {
				out.Got = append(out.Got, i)
				time.Sleep(5 * time.Millisecond)
				err = q.TaskDone(ctx)
			}
			if err != nil && (once.Err() == nil || ctx.Err() != nil) {
				return answered(out, err)
			}
		}
	})
)

// answered makes the loss of a manager a result.
func answered(out kept, err error) (kept, error) {
	if lostManager(err) {
		out.Lost, err = err.Error(), nil
	}
	return out, err
}

func lostManager(err error) bool {
	var lost *fiber.WorkerLostError
	return errors.As(err, &lost)
}

func (k keeping) use(ctx context.Context) (int, error) {
	if err := k.Dict.Set(ctx, k.N, answer(k.N)); err != nil {
		return 0, err
	}
	if err := k.Lock.Acquire(ctx); err != nil && !errors.Is(err, fiber.ErrAbandoned) {
		return 0, err
	}
	n, err := k.Value.Get(ctx)
	if err == nil {
		time.Sleep(5 * time.Millisecond)
		err = k.Value.Set(ctx, n+1)
	}
	if err := errors.Join(err, k.Lock.Release(ctx)); err != nil {
		return 0, err
	}
	return fiber.Call(ctx, k.Counter, add, 1)
}

// managed is the manager that there is.
type managed struct {
	*fiber.Manager
	since  int
	rounds int
}

const lifetime = 5 // rounds of a manager

func (m *managed) close() error {
	if m == nil {
		return nil
	}
	return m.Manager.Close()
}

// managerRound has the workers use objects of a manager, which is replaced every few rounds, and when it is lost.
func managerRound(s *soak, ctx context.Context, r *rand.Rand) error {
	if s.manager != nil && s.manager.rounds >= lifetime {
		err := s.manager.close()
		s.manager = nil
		if err != nil {
			return err
		}
	}
	if s.manager == nil {
		since := s.killer.mark(managerKind)
		m, err := fiber.NewManager(ctx, fiber.ManagerName(managerKind))
		if err != nil {
			return s.excuse("manager", managerKind, since, err)
		}
		s.manager = &managed{Manager: m, since: since}
	}
	s.manager.rounds++
	err := s.manager.round(ctx, s, r)
	if lostManager(err) || errors.Is(err, errLost) {
		since := s.manager.since
		s.manager.close()
		s.manager = nil
		return s.excuse("manager", managerKind, since, err)
	}
	return err
}

var errLost = errors.New("lost")

// all is an error if a task has seen the manager lost.
func all(outs []kept, err error) ([]kept, error) {
	for _, out := range outs {
		if out.Lost != "" {
			return nil, fmt.Errorf("%w: %s", errLost, out.Lost)
		}
	}
	return outs, err
}

func (m *managed) round(ctx context.Context, s *soak, r *rand.Rand) error {
	since := s.killer.mark(workerKind)
	dict, err1 := fiber.NewDict[int, int](ctx, m.Manager)
	value, err2 := fiber.NewValue(ctx, m.Manager, 0)
	lock, err3 := fiber.NewLock(ctx, m.Manager)
	count, err4 := fiber.New(ctx, m.Manager, counters, 0)
	queue, err5 := fiber.NewJoinableQueue[int](ctx, m.Manager)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	ins := make([]keeping, 10)
	for i := range ins {
		ins[i] = keeping{dict, value, lock, count, i + 100*r.IntN(100)}
	}
	outs, err := all(fiber.Map(ctx, s.pool, keepFunc, ins))
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for i, out := range outs {
		s.did("manager", 1)
		if v, there, err := dict.Get(ctx, ins[i].N); err != nil || !there || v != answer(ins[i].N) {
			return fmt.Errorf("the dict has %d for %d, %v, %w", v, ins[i].N, there, err)
		}
		if seen[out.Count] {
			return fmt.Errorf("two calls have counted %d", out.Count)
		}
		seen[out.Count] = true
	}
	n, err := value.Get(ctx)
	if err != nil {
		return err
	}
	again := s.killer.since(workerKind, since) // a task may have run twice
	if n < len(ins) || n > len(ins) && !again {
		return fmt.Errorf("%d tasks have counted to %d under a lock", len(ins), n)
	}
	return m.deal(ctx, s, queue, since)
}

// deal has the workers empty a joinable queue.
func (m *managed) deal(ctx context.Context, s *soak, queue *fiber.JoinableQueue[int], since int) error {
	missing := make([]int, 20)
	for i := range missing {
		missing[i] = i
	}
	if err := queue.PutMany(ctx, slices.Clone(missing)); err != nil {
		return err
	}
	outs, err := all(fiber.Map(ctx, s.pool, dealFunc, []*fiber.JoinableQueue[int]{queue, queue}, fiber.ChunkSize(1)))
	if err != nil {
		return err
	}
	rest, err := answered(dealFunc.Call(ctx, queue)) // what came back when the workers were done
	if err != nil {
		return err
	}
	if outs, err = all(append(outs, rest), nil); err != nil {
		return err
	}
	err = queue.Join(ctx)
	if errors.Is(err, fiber.ErrAbandoned) {
		err = s.excuse("manager", workerKind, since, err)
	}
	if err != nil {
		return err
	}
	for _, out := range outs {
		for _, i := range out.Got {
			at := slices.Index(missing, i)
			if at < 0 {
				return fmt.Errorf("item %d of the joinable queue was got twice", i)
			}
			missing = slices.Delete(missing, at, at+1)
			s.did("manager", 1)
		}
	}
	if len(missing) > 0 { // a task that ran again has lost what it had got
		return s.excuse("manager", workerKind, since, fmt.Errorf("items %v of the joinable queue are lost", missing))
	}
	return nil
}
