//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Chaos has roots of their own, with short heartbeats, in which a random worker
// is killed or stopped every now and then.
const (
	chaosTasks   = 20_000
	chaosWorkers = 8
	// Enough for every task that is none of the poisonous ones: with heartbeats
	// that short a busy machine may lose a worker, too.
	chaosAttempts = 5
)

// monkey kills and stops workers of a pool until it is called off.
type monkey struct {
	rand           *rand.Rand
	pool           *fiber.Pool
	killed, halted int
	stop           chan struct{}
	stopped        sync.WaitGroup
}

func unleash(pool *fiber.Pool, seed uint64) *monkey {
	m := &monkey{rand: rand.New(rand.NewPCG(seed, 1)), pool: pool, stop: make(chan struct{})}
	m.stopped.Go(m.rage)
	return m
}

func (m *monkey) rage() {
	for {
		select {
		case <-m.stop:
			return
		case <-time.After(time.Duration(50+m.rand.IntN(250)) * time.Millisecond):
		}
		workers := m.pool.Stats().Processes
		if len(workers) == 0 {
			continue
		}
		pid, _ := strconv.Atoi(workers[m.rand.IntN(len(workers))].ID)
		if m.rand.IntN(2) == 0 {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				m.killed++
			}
		} else if syscall.Kill(pid, syscall.SIGSTOP) == nil {
			m.halted++
		}
	}
}

// callOff ends it and says what it has done.
func (m *monkey) callOff() string {
	close(m.stop)
	m.stopped.Wait()
	return fmt.Sprintf("%d killed, %d stopped", m.killed, m.halted)
}

// whole waits until a pool is back at its size.
func whole(ctx context.Context, pool *fiber.Pool) error {
	for {
		if s := pool.Stats(); s.Ready == chaosWorkers && s.Starting == 0 && len(s.Processes) == chaosWorkers && s.Queued+s.Running == 0 {
			// A stopped one among them is found out by its silence.
			if n := halted(s); n == 0 {
				return nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the pool is not whole again: %+v", pool.Stats())
		}
	}
}

func halted(s fiber.PoolStats) (n int) {
	for _, w := range s.Processes {
		pid, _ := strconv.Atoi(w.ID)
		if f := fibertest.Stat(pid); len(f) == 0 || f[0] == "T" || f[0] == "Z" {
			n++
		}
	}
	return n
}

// chaos makes a program: a pool, a monkey, and work that is to come out right.
func chaos(work func(ctx context.Context, pool *fiber.Pool, seed uint64) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, fibertest.Patience)
		defer cancel()
		pool, err := fiber.NewPool(chaosWorkers, fiber.WithMaxAttempts(chaosAttempts))
		if err != nil {
			return err
		}
		defer pool.Terminate()
		seed := fibertest.ChaosSeed()
		m := unleash(pool, seed)
		begun := time.Now()
		err = work(ctx, pool, seed)
		deeds := m.callOff()
		fmt.Printf("%s in %.1fs; %+v\n", deeds, time.Since(begun).Seconds(), pool.Stats())
		if err != nil {
			return err
		}
		if m.killed+m.halted < 5 {
			return errors.New("too little chaos")
		}
		if err := whole(ctx, pool); err != nil {
			return err
		}
		pool.Close()
		fmt.Println("right")
		return nil
	}
}

var _ = fibertest.MainProgram("chaos map", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	ins := fibertest.ChoresFrom(seed, chaosTasks)
	last := 0
	outs, err := fiber.Map(ctx, pool, fibertest.Chores, ins, fiber.OnProgress(func(p fiber.Progress) { last = p.Done }))
	if err != nil {
		return err
	}
	for i, out := range outs {
		if out != i*7+1 {
			return fmt.Errorf("result %d is %d", i, out)
		}
	}
	if len(outs) != chaosTasks || last != chaosTasks {
		return fmt.Errorf("%d results, %d delivered", len(outs), last)
	}
	return nil
}))

var _ = fibertest.MainProgram("chaos imap", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	i := 0
	for out, err := range fiber.IMap(ctx, pool, fibertest.Chores, slices.Values(fibertest.ChoresFrom(seed, chaosTasks))) {
		if err != nil {
			return err
		}
		if out != i*7+1 {
			return fmt.Errorf("result %d is %d", i, out)
		}
		i++
	}
	if i != chaosTasks {
		return fmt.Errorf("%d results", i)
	}
	return nil
}))

var _ = fibertest.MainProgram("chaos imap unordered", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	seen := map[int]bool{}
	for out, err := range fiber.IMapUnordered(ctx, pool, fibertest.Chores, slices.Values(fibertest.ChoresFrom(seed, chaosTasks))) {
		if err != nil {
			return err
		}
		if seen[out] || out%7 != 1 || out/7 >= chaosTasks {
			return fmt.Errorf("a result %d that is wrong or came twice", out)
		}
		seen[out] = true
	}
	if len(seen) != chaosTasks {
		return fmt.Errorf("%d results", len(seen))
	}
	return nil
}))

var _ = fibertest.MainProgram("chaos apply", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	ins := fibertest.ChoresFrom(seed, chaosTasks)
	futures := make([]*fiber.Future[int], len(ins))
	for i, in := range ins {
		futures[i] = fiber.ApplyAsync(ctx, pool, fibertest.Chores, in)
	}
	for i, f := range futures {
		if out, err := f.Get(ctx); err != nil || out != i*7+1 {
			return fmt.Errorf("result %d is %d, %w", i, out, err)
		}
	}
	return nil
}))

// poisoned has tasks among the others that end their own process. They fail
// after all attempts, and nobody else does.
func poisoned(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	ins := fibertest.ChoresFrom(seed, chaosTasks)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 12 {
		ins[r.IntN(len(ins))].End = []string{"kill", "exit"}[r.IntN(2)]
	}
	i := 0
	for out, err := range fiber.IMap(ctx, pool, fibertest.Chores, slices.Values(ins)) {
		var lost *fiber.WorkerLostError
		switch {
		case ins[i].End == "" && (err != nil || out != i*7+1):
			return fmt.Errorf("result %d is %d, %w", i, out, err)
		case ins[i].End != "" && (!errors.As(err, &lost) || lost.Attempt != chaosAttempts || lost.Attempts != chaosAttempts || lost.Func != "chores"):
			return fmt.Errorf("poisoned %d gave %d, %w", i, out, err)
		}
		i++
	}
	if i != chaosTasks {
		return fmt.Errorf("%d results", i)
	}
	return nil
}

var _ = fibertest.MainProgram("chaos poison", chaos(poisoned))

var _ = fibertest.MainProgram("poison", func(ctx context.Context) error {
	pool, err := fiber.NewPool(chaosWorkers, fiber.WithMaxAttempts(chaosAttempts))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	if err := poisoned(ctx, pool, fibertest.ChaosSeed()); err != nil {
		return err
	}
	if err := whole(ctx, pool); err != nil {
		return err
	}
	fmt.Printf("%+v\nright\n", pool.Stats())
	return nil
})

func TestChaos(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"chaos map", "chaos imap", "chaos imap unordered", "chaos apply", "chaos poison", "poison"} {
		t.Run(name, func(t *testing.T) {
			seed := os.Getenv(fibertest.SeedKey)
			if seed == "" {
				seed = strconv.FormatUint(rand.Uint64(), 10)
			}
			t.Logf("%s=%s", fibertest.SeedKey, seed)
			x := fibertest.Start(t, name, fibertest.ArgKey+"="+seed, "FIBER_HEARTBEAT_INTERVAL=100ms", "FIBER_HEARTBEAT_TIMEOUT=1s", fibertest.SeedKey+"=")
			require.Equal(t, 0, x.Wait(2*fibertest.Patience), "%s=%s", fibertest.SeedKey, seed)
			require.Contains(t, x.Out.String(), "right")
			t.Log(x.Out.String())
			x.NobodyLeft()
		})
	}
}
