//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// limits is what a process may use, as it sees it.
type limits struct {
	Procs  int
	Memory int64
	GPUs   string
}

var (
	seeLimits = fiber.Register("seeLimits", func(context.Context, fibertest.None) (limits, error) {
		return limits{fiber.CPUCount(), debug.SetMemoryLimit(-1), os.Getenv("CUDA_VISIBLE_DEVICES")}, nil
	})

	limited = fiber.Register("limited", func(ctx context.Context, _ fibertest.None) (limits, error) {
		return seeLimits.Call(ctx, fibertest.None{})
	},
		meta.CPU(1.5), meta.Memory(200))
)

func TestLimitsOfWorkers(t *testing.T) {
	t.Parallel()
	got, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), limited, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 2, got.Procs, "a part of a core is a core")
	require.EqualValues(t, 180<<20, got.Memory)

	got, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1, fiber.WithMeta(meta.CPU(3))), seeLimits, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, 3, got.Procs)
	require.Equal(t, debug.SetMemoryLimit(-1), got.Memory)

	got, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), seeLimits, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, limits{runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1), os.Getenv("CUDA_VISIBLE_DEVICES")}, got)
}

// announced says what a rank is called and how many CPUs it has.
var announced = fiber.RegisterRing("announced", nil, func(context.Context, *fiber.RingNode, fibertest.None) error {
	return fmt.Errorf("%s of %d", fiber.CurrentProcess().Name(), runtime.GOMAXPROCS(0))
}, meta.CPU(5))

func TestOptionsOfARing(t *testing.T) {
	t.Parallel()
	ring := fiber.NewRing(1, announced, fiber.WithName("a/b"), fiber.WithMeta(meta.CPU(3)))
	require.Equal(t, "a/b", ring.Name())
	require.EqualError(t, ring.Run(fibertest.Soon(t), fibertest.None{}), "fiber: a/b failed at rank 0: announced in a/b/rank-0: a/b/rank-0 of 3")
	require.ErrorContains(t, fiber.NewRing(1, announced, fiber.WithName(" ")).Run(fibertest.Soon(t), fibertest.None{}), "WithName: the name is empty")
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	used := regexp.MustCompile(`used (\d+ MiB of|more than its) 150 MiB`)
	pool := fibertest.NewPool(t, 1, fiber.WithMaxAttempts(1))
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Hog, 10)
	require.NoError(t, err, "far from its limit")
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Hog, 2000)
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.True(t, lost.OOM)
	require.Regexp(t, used, lost.Reason)
	require.Contains(t, err.Error(), "OOMKilled")
	require.Regexp(t, used, err.Error())
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Hog, 1)
	require.NoError(t, err, "the pool goes on")

	p := started(t, fibertest.Hog, 2000)
	exit := exitOf(t, p)
	require.True(t, exit.OOM)
	require.Equal(t, 137, exit.Code)
	require.Regexp(t, used, exit.Reason)
	require.Regexp(t, used, exit.Error())

	err = started(t, fibertest.Hog, 1).Join(fibertest.Soon(t))
	require.NoError(t, err)
}

// expect ends a program when something is not so.
func expect(ok bool, what string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(what, args...))
	}
}

// holding says which GPU it has and holds it.
type holding struct {
	File string
	For  time.Duration
}

func (h holding) run(ctx context.Context) (string, error) {
	devices := os.Getenv("CUDA_VISIBLE_DEVICES")
	if h.File != "" {
		if err := (fibertest.Marking{File: h.File, Line: devices}).Append(); err != nil {
			return "", err
		}
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(h.For):
		return devices, nil
	}
}

var (
	holdOne = fiber.Register("holdOne", func(ctx context.Context, h holding) (string, error) { return h.run(ctx) }, meta.GPU(1))
	holdTwo = fiber.Register("holdTwo", func(ctx context.Context, h holding) (string, error) { return h.run(ctx) }, meta.GPU(2))

	// holdBelow has a process of its own hold one.
	holdBelow = fiber.Register("holdBelow", func(ctx context.Context, h holding) (fibertest.None, error) {
		p := fiber.NewProcess(holdOne, h)
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, p.Join(ctx)
	})

	// holdFurtherBelow has a process of its process hold one.
	holdFurtherBelow = fiber.Register("holdFurtherBelow", func(ctx context.Context, h holding) (fibertest.None, error) {
		p := fiber.NewProcess(holdBelow, h)
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, p.Join(ctx)
	})
)

// waitForLines waits until a file has n lines.
func waitForLines(file string, n int) []string {
	for deadline := time.Now().Add(fibertest.Patience); ; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(file)
		if got := strings.Fields(string(b)); len(got) >= n {
			return got
		}
		expect(time.Now().Before(deadline), "%d lines never came to %s", n, file)
	}
}

// brief is a start that is not to succeed.
func brief(ctx context.Context, p *fiber.Process) error {
	ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	return p.Start(ctx)
}

var gpuPrograms = map[string]func(ctx context.Context, file string){
	// A ring has all of its GPUs or none: rings that want the same ones wait for each other.
	"rings": func(ctx context.Context, file string) {
		err := fiber.NewRing(3, paired).Run(ctx, file)
		var launch *fiber.LaunchError
		expect(errors.As(err, &launch) && strings.Contains(err.Error(), "(3 ranks)"), "more than there are: %v", err)
		ended := make(chan error)
		for range 4 {
			go func() { ended <- fiber.NewRing(2, paired).Run(ctx, file) }()
		}
		for range 4 {
			err := <-ended
			expect(err == nil, "a ring: %v", err)
		}
		got := waitForLines(file, 8)
		slices.Sort(got)
		expect(slices.Equal(got, []string{"0", "0", "0", "0", "1", "1", "1", "1"}), "the ranks' GPUs: %v", got)
	},
	"processes": func(ctx context.Context, file string) {
		one, two, three := fiber.NewProcess(holdOne, holding{file, time.Hour}), fiber.NewProcess(holdOne, holding{file, time.Hour}), fiber.NewProcess(holdOne, holding{file, time.Hour})
		expect(one.Start(ctx) == nil && two.Start(ctx) == nil, "two start")
		got := waitForLines(file, 2)
		slices.Sort(got)
		expect(slices.Equal(got, []string{"0", "1"}), "two share: %v", got)
		err := brief(ctx, three)
		expect(errors.Is(err, context.DeadlineExceeded), "the third did not wait: %v", err)
		begun := make(chan error)
		go func() { begun <- three.Start(ctx) }()
		syscall.Kill(one.PID(), syscall.SIGKILL)
		expect(<-begun == nil, "the third")
		expect(!one.Alive(), "the third came before the first was gone")
		expect(two.Alive(), "the second")
		expect(waitForLines(file, 3)[2] != "", "the third has none")
		// Two at once come when both are free, and nobody overtakes them.
		both := fiber.NewProcess(holdTwo, holding{file, time.Hour})
		go func() { begun <- both.Start(ctx) }()
		two.Terminate()
		three.Terminate()
		expect(<-begun == nil, "both")
		last := strings.Split(waitForLines(file, 4)[3], ",")
		slices.Sort(last)
		expect(slices.Equal(last, []string{"0", "1"}), "both: %v", last)
	},
	"too many": func(ctx context.Context, _ string) {
		for _, p := range []*fiber.Process{fiber.NewProcess(holdOne, holding{}, fiber.WithMeta(meta.GPU(3)))} {
			err := p.Start(ctx)
			expect(err != nil && strings.Contains(err.Error(), "meta.GPU(3), and this machine has 2"), "%v", err)
		}
		pool, err := fiber.NewPool(1, fiber.WithMeta(meta.GPU(3)))
		expect(err == nil, "%v", err)
		_, err = fiber.Apply(ctx, pool, fibertest.Square, 1)
		expect(err != nil && strings.Contains(err.Error(), "meta.GPU(3), and this machine has 2"), "%v", err)
		pool.Close()
	},
	"pool": func(ctx context.Context, _ string) {
		pool, err := fiber.NewPool(3)
		expect(err == nil, "%v", err)
		devices, err := fiber.Map(ctx, pool, holdOne, make([]holding, 100), fiber.ChunkSize(1))
		expect(err == nil, "%v", err)
		for _, d := range devices {
			expect(d == "0" || d == "1", "a worker with GPU %q", d)
		}
		expect(pool.Stats().WorkersStarted <= 2, "%+v", pool.Stats())
		pool.Close()
		p := fiber.NewProcess(holdTwo, holding{})
		expect(p.Start(ctx) == nil && p.Join(ctx) == nil, "the closed pool keeps its GPUs")
	},
	"nested": func(ctx context.Context, file string) {
		one, two := fiber.NewProcess(holdBelow, holding{file, time.Hour}), fiber.NewProcess(holdFurtherBelow, holding{file, time.Hour})
		expect(one.Start(ctx) == nil && two.Start(ctx) == nil, "two start")
		got := waitForLines(file, 2)
		slices.Sort(got)
		expect(slices.Equal(got, []string{"0", "1"}), "two share: %v", got)
		three := fiber.NewProcess(holdOne, holding{file, time.Hour})
		err := brief(ctx, three)
		expect(errors.Is(err, context.DeadlineExceeded), "the third did not wait: %v", err)
		four := fiber.NewProcess(holdBelow, holding{file, time.Hour}) // its process waits
		expect(four.Start(ctx) == nil, "four")
		expect(four.Kill() == nil && four.Join(ctx) != nil, "four dies waiting")
		syscall.Kill(one.PID(), syscall.SIGKILL) // whose process holds one
		expect(three.Start(ctx) == nil, "the third")
		expect(waitForLines(file, 3)[2] != "", "the third has none")
		five := fiber.NewProcess(holdBelow, holding{file, 0})
		expect(five.Start(ctx) == nil, "five")
		expect(two.Kill() == nil, "two")
		expect(five.Join(ctx) == nil, "five")
		expect(three.Kill() == nil && three.Join(ctx) != nil, "three")
		both := fiber.NewProcess(holdTwo, holding{})
		expect(both.Start(ctx) == nil && both.Join(ctx) == nil, "one is lost")
	},
	// A worker's own processes, at a time when the worker runs its initializer.
	"initializer": func(ctx context.Context, file string) {
		pool, err := fiber.NewPool(1, fiber.WithInitializer(holdBelow, holding{file, 0}))
		expect(err == nil, "%v", err)
		four, err := fiber.Apply(ctx, pool, fibertest.Square, 2)
		expect(err == nil && four == 4, "%v", err)
		expect(len(waitForLines(file, 1)) == 1, "the initializer's process")
		pool.Close()
	},
	// Tasks of a worker ask upward while others of them run.
	"tasks": func(ctx context.Context, file string) {
		pool, err := fiber.NewPool(2, fiber.WithConcurrency(3))
		expect(err == nil, "%v", err)
		_, err = fiber.Map(ctx, pool, holdBelow, fibertest.SlicesOf(holding{file, time.Millisecond}, 20), fiber.ChunkSize(1))
		expect(err == nil, "%v", err)
		for _, d := range waitForLines(file, 20) {
			expect(d == "0" || d == "1", "a process with GPU %q", d)
		}
		pool.Close()
		both := fiber.NewProcess(holdTwo, holding{})
		expect(both.Start(ctx) == nil && both.Join(ctx) == nil, "one is lost")
	},
	// Starts that are given up at any moment lose no device.
	"given up": func(ctx context.Context, file string) {
		pool, err := fiber.NewPool(1)
		expect(err == nil, "%v", err)
		_, err = fiber.Apply(ctx, pool, giveUp, fibertest.None{})
		expect(err == nil, "%v", err)
		both := fiber.NewProcess(holdTwo, holding{})
		expect(both.Start(ctx) == nil && both.Join(ctx) == nil, "one is lost")
		pool.Close()
	},
}

// giveUp starts processes with a GPU and gives up early.
var giveUp = fiber.Register("giveUp", func(ctx context.Context, _ fibertest.None) (fibertest.None, error) {
	for i := range 300 {
		short, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Microsecond)
		p := fiber.NewProcess(holdOne, holding{})
		if p.Start(short) == nil {
			p.Kill()
			<-p.Done()
		}
		cancel()
	}
	return fibertest.None{}, nil
})

var _ = fibertest.MainProgram("gpus", func(ctx context.Context) error {
	which, file, _ := strings.Cut(os.Getenv(fibertest.ArgKey), "\n")
	gpuPrograms[which](ctx, file)
	fmt.Println("fine")
	return nil
})

func TestGPUs(t *testing.T) {
	t.Parallel()
	for which := range gpuPrograms {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			x := fibertest.Start(t, "gpus", "CUDA_VISIBLE_DEVICES=0,1", fibertest.ArgKey+"="+which+"\n"+fibertest.TempFile(t))
			require.Zero(t, x.Wait(fibertest.Patience))
			require.Equal(t, "fine\n", x.Out.String())
			if which == "too many" {
				require.Equal(t, 1, strings.Count(x.Err.String(), "a worker did not start"), "it is tried again in vain")
			}
			x.NobodyLeft()
		})
	}
}

// paired notes which GPU each rank has.
var paired = fiber.RegisterRing("paired", nil, func(ctx context.Context, node *fiber.RingNode, file string) error {
	line := os.Getenv("CUDA_VISIBLE_DEVICES")
	return errors.Join(fibertest.Marking{File: file, Line: line}.Append(), node.Barrier(ctx))
}, meta.GPU(1))

// below is what a process of a limited process sees.
var below = fiber.Register("below", func(ctx context.Context, _ fibertest.None) ([2]limits, error) {
	mine, err := seeLimits.Call(ctx, fibertest.None{})
	if err != nil {
		return [2]limits{}, err
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return [2]limits{}, err
	}
	defer pool.Close()
	its, err := fiber.Apply(ctx, pool, seeLimits, fibertest.None{})
	return [2]limits{mine, its}, err
}, meta.CPU(1), meta.Memory(1000), meta.GPU(1))

var _ = fibertest.MainProgram("inheritance", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	got, err := fiber.Apply(ctx, pool, below, fibertest.None{})
	fmt.Printf("%+v\n", got)
	return err
})

// What one process was given is not passed on to those it starts.
func TestLimitsAreNotInherited(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "inheritance", "CUDA_VISIBLE_DEVICES=5", "GOMAXPROCS=7", "GOMEMLIMIT=4GiB")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "[{Procs:1 Memory:943718400 GPUs:5} {Procs:7 Memory:4294967296 GPUs:}]\n", x.Out.String())
}
