//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// title is what a process is called, by itself and by its operating system.
type title struct {
	Name, Comm string
	Args       string // the first of its own, and the first that ps shows
	Shown      string
	Below      string // the name of a worker of a pool of its own
}

var entitled = fiber.Register("entitled", func(ctx context.Context, _ fibertest.None) (title, error) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return title{}, err
	}
	cmdline, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return title{}, err
	}
	shown, _, _ := strings.Cut(string(cmdline), "\x00")
	t := title{Name: fiber.CurrentProcess().Name(), Comm: strings.TrimSpace(string(comm)), Args: os.Args[0], Shown: shown}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return t, err
	}
	defer pool.Close()
	if _, err = fiber.Apply(ctx, pool, fibertest.Getpid, fibertest.None{}); err == nil {
		t.Below = pool.Stats().Processes[0].Name
	}
	return t, err
})

// Every process is called by its name, and no two workers have the same one.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, opts := range [][]fiber.PoolOption{nil, nil, {fiber.WithName("Same")}, {fiber.WithName("Same")}} {
		pool := fibertest.NewPool(t, 2, opts...)
		fibertest.Warm(t, pool)
		for _, w := range pool.Stats().Processes {
			require.False(t, seen[w.Name], "two workers are called %s", w.Name)
			seen[w.Name] = true
		}
		for range 2 { // one after the other, in the same worker
			its, err := fiber.Apply(fibertest.Soon(t), pool, entitled, fibertest.None{})
			require.NoError(t, err)
			require.True(t, seen[its.Name])
			require.Equal(t, its.Name[:min(len(its.Name), 15)], its.Comm)
			if fibertest.Self() == os.Getpid() { // here, and not in containers
				require.Equal(t, its.Name, its.Shown)
				require.Equal(t, os.Args[0], its.Args, "the program sees what it was started as")
			}
			require.Regexp(t, `^Pool\d+Worker-(\d+\.)+\d+$`, its.Below)
			require.False(t, seen[its.Below], "two workers are called %s", its.Below)
			seen[its.Below] = true
		}
	}
}

var _ = fibertest.MainProgram("a lost worker", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = fiber.Apply(ctx, pool, fibertest.Die, int(syscall.SIGKILL))
	fmt.Println(err)
	_, err = fiber.Apply(ctx, pool, fibertest.Nap, 3*fibertest.Grace, fiber.Timeout(fibertest.Grace/10))
	fmt.Println(err)
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 1)
	fmt.Println(err, pool.Stats().WorkersLost)
	return nil
}, fiber.Config{CancelGrace: fibertest.Grace})

// The log says of a lost worker which process it was, where, why it ended, and
// what becomes of its tasks. One that the pool ends is not lost. Log and count
// agree.
func TestWhatIsSaidOfALostWorker(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "a lost worker")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.True(t, strings.HasSuffix(x.Out.String(), "\n<nil> 3\n"), x.Out.String())
	host, err := os.Hostname()
	require.NoError(t, err)
	lost := regexp.MustCompile(`msg="fiber: a worker was lost" worker=Pool1Worker-(\d) id=(\d+) host=(\S+) reason="signal: killed" tasks="(.*)" ran="task 0 of die"`).
		FindAllStringSubmatch(x.Err.String(), -1)
	require.Len(t, lost, 3, x.Err.String())
	for i, l := range lost {
		require.Equal(t, []string{strconv.Itoa(i + 1), host}, []string{l[1], l[3]})
		require.Equal(t, []string{"1 run again", "1 run again", "1 failed at attempt 3 of 3"}[i], l[4])
	}
	require.Regexp(t, `msg="fiber: a worker is killed" worker=Pool1Worker-4 id=\d+ host=\S+ reason=".*cancel_grace.*"`, x.Err.String())
}

//fiber:ignore unclosed that is what is tested
var leaveAPool = fiber.Register("leaveAPool", func(ctx context.Context, _ fibertest.None) (fibertest.None, error) {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return fibertest.None{}, err
	}
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 1)
	return fibertest.None{}, err
})

var _ = fibertest.MainProgram("brief pools", func(ctx context.Context) error {
	for i := range 30 {
		pool, err := fiber.NewPool(6)
		if err != nil {
			return err
		}
		if _, err := fiber.Apply(ctx, pool, fibertest.Square, 1); err != nil {
			return err
		}
		if i%2 == 0 {
			pool.Close()
			continue
		}
		fiber.MapAsync(ctx, pool, fibertest.Rest, fibertest.SlicesOf(time.Hour, 6))
		for pool.Stats().Running < 6 {
			time.Sleep(time.Millisecond)
		}
		pool.Terminate()
	}
	for range 10 {
		p := fiber.NewProcess(leaveAPool, fibertest.None{})
		if err := p.Start(ctx); err != nil {
			return err
		}
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	return nil
})

// A pool, or its process, may end while workers start, or work: there is nothing
// to say.
func TestPoolsThatEndAreSilent(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "brief pools")
	require.Zero(t, x.Wait(2*fibertest.Patience))
	require.Empty(t, x.Err.String())
}
