//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// steady runs tasks, with a new worker for every 25 of them, for as long as
// the API server is away and longer.
var _ = fibertest.MainProgram("steady", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	ins := make([]time.Duration, 500)
	for i := range ins {
		ins[i] = 100 * time.Millisecond
	}
	done := 0
	_, err = fiber.Map(ctx, pool, fibertest.Nap, ins, fiber.ChunkSize(1), fiber.OnProgress(func(p fiber.Progress) {
		n := p.Done
		for ; done+50 <= n; done += 50 {
			fmt.Println("done", done+50)
		}
	}))
	if err != nil {
		return err
	}
	fmt.Println("lost", pool.Stats().WorkersLost, "started", pool.Stats().WorkersStarted)
	// The watch goes on: a worker that dies is heard of, and another one comes.
	if _, err := fiber.Apply(ctx, pool, fibertest.Die, int(syscall.SIGKILL)); err == nil {
		return errors.New("a worker has survived")
	}
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 3)
	return err
})

func TestAPIServerIsAway(t *testing.T) {
	needCluster(t)
	pid := apiServer(t)
	x := clustered(t, "steady")
	x.Says("up")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	resume := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(resume)
	time.Sleep(20 * time.Second) // that is what is shown
	x.Says("done 200")           // running work goes on
	resume()
	require.Zero(t, x.Wait(3*fibertest.Patience), x.Err.String())
	require.Contains(t, x.Out.String(), "lost 0 started 2\n")
	require.Empty(t, podsOf(t, x))
}

// Pods that are wanted while the API server is away are made once, when it is
// back.
func TestStartsWhileTheAPIServerIsAway(t *testing.T) {
	needCluster(t)
	pid := apiServer(t)
	x := clustered(t, "growing")
	x.Says("up")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	resume := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(resume)
	require.NoError(t, x.Cmd.Process.Signal(syscall.SIGUSR1))
	x.Says("growing")
	time.Sleep(20 * time.Second)
	resume()
	x.Says("grown")
	require.Len(t, podsOf(t, x), 4, "nothing is started twice")
	require.NoError(t, x.Cmd.Process.Signal(syscall.SIGUSR1))
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Empty(t, podsOf(t, x))
}

var _ = fibertest.MainProgram("growing", func(ctx context.Context) error {
	signals := signalled(syscall.SIGUSR1)
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	<-signals
	fmt.Println("growing")
	if err := pool.Resize(ctx, 4); err != nil {
		return err
	}
	fmt.Println("grown")
	<-signals
	return nil
})

// apiServer is the process id of the cluster's, which is one of test/cluster.
func apiServer(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(fibertest.ClusterKey), "pid/kube-apiserver"))
	if err != nil {
		t.Skip("the cluster's API server is not of test/cluster")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

func signalled(sig os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, sig)
	return c
}
