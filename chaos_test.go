//go:build unix

package fiber_test

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
)

// Chaos has roots of their own, with short heartbeats, in which a random
// worker is killed or stopped every now and then. FIBER_TEST_SEED repeats a
// run as far as the machine lets it.
const seedKey = "FIBER_TEST_SEED"

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

// chore is a task that takes from no time at all to 3 ms.
type chore struct {
	N      int
	Micros int
	End    string // how it ends its process
}

var chores = fiber.Register("chores", func(_ context.Context, c chore) (int, error) {
	if c.Micros > 0 {
		time.Sleep(time.Duration(c.Micros) * time.Microsecond)
	}
	switch c.End {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "exit":
		os.Exit(3)
	}
	return c.N*7 + 1, nil
})

func choresFrom(seed uint64) []chore {
	r := rand.New(rand.NewPCG(seed, 2))
	cs := make([]chore, chaosTasks)
	for i := range cs {
		cs[i].N = i
		if r.IntN(3) > 0 {
			cs[i].Micros = r.IntN(3000)
		}
	}
	return cs
}

func chaosSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv(argKey), 10, 64)
	if err != nil {
		panic(err)
	}
	return seed
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
		if f := stat(pid); len(f) == 0 || f[0] == "T" || f[0] == "Z" {
			n++
		}
	}
	return n
}

// chaos makes a program: a pool, a monkey, and work that is to come out right.
func chaos(work func(ctx context.Context, pool *fiber.Pool, seed uint64) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		pool, err := fiber.NewPool(chaosWorkers, fiber.WithMaxAttempts(chaosAttempts))
		if err != nil {
			return err
		}
		defer pool.Terminate()
		seed := chaosSeed()
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

var _ = mainProgram("chaos map", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	ins := choresFrom(seed)
	last := 0
	outs, err := fiber.Map(ctx, pool, chores, ins, fiber.OnProgress(func(done, total int) { last = done }))
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

var _ = mainProgram("chaos imap", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	i := 0
	for out, err := range fiber.IMap(ctx, pool, chores, slices.Values(choresFrom(seed))) {
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

var _ = mainProgram("chaos imap unordered", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	seen := map[int]bool{}
	for out, err := range fiber.IMapUnordered(ctx, pool, chores, slices.Values(choresFrom(seed))) {
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

var _ = mainProgram("chaos apply", chaos(func(ctx context.Context, pool *fiber.Pool, seed uint64) error {
	ins := choresFrom(seed)
	futures := make([]*fiber.Future[int], len(ins))
	for i, in := range ins {
		futures[i] = fiber.ApplyAsync(ctx, pool, chores, in)
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
	ins := choresFrom(seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 12 {
		ins[r.IntN(len(ins))].End = []string{"kill", "exit"}[r.IntN(2)]
	}
	i := 0
	for out, err := range fiber.IMap(ctx, pool, chores, slices.Values(ins)) {
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

var _ = mainProgram("chaos poison", chaos(poisoned))

var _ = mainProgram("poison", func(ctx context.Context) error {
	pool, err := fiber.NewPool(chaosWorkers, fiber.WithMaxAttempts(chaosAttempts))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	if err := poisoned(ctx, pool, chaosSeed()); err != nil {
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
			seed := os.Getenv(seedKey)
			if seed == "" {
				seed = strconv.FormatUint(rand.Uint64(), 10)
			}
			t.Logf("%s=%s", seedKey, seed)
			x := start(t, name, argKey+"="+seed, "FIBER_HEARTBEAT_INTERVAL=100ms", "FIBER_HEARTBEAT_TIMEOUT=1s", seedKey+"=")
			require.Equal(t, 0, x.wait(2*patience), "%s=%s", seedKey, seed)
			require.Contains(t, x.out.String(), "right")
			t.Log(x.out.String())
			x.nobodyLeft()
		})
	}
}
