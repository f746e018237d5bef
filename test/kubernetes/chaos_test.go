//go:build unix

package kubernetes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

const (
	havocTasks   = 2_000
	havocWorkers = 4
	havocMeals   = 5
)

// feast is a task that may be the last of its worker: it takes a meal, where
// there is one left, that is more than the worker's memory.
type feast struct {
	Chore fibertest.Chore
	Table *fiber.SimpleQueue[int]
}

var feasts = fiber.Register("feasts", func(ctx context.Context, f feast) (int, error) {
	if f.Table != nil {
		within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if mib, err := f.Table.Get(within); err == nil {
			fibertest.Hog.Call(ctx, mib)
		}
	}
	return fibertest.Chores.Call(ctx, f.Chore)
})

// havoc deletes and kills the pods of a pool, and cordons the nodes now and
// then, until it is called off.
func havoc(pool *fiber.Pool, seed uint64, stop <-chan struct{}) (deleted, killed int) {
	r := rand.New(rand.NewPCG(seed, 4))
	nodes := func(what string) {
		out, _ := exec.Command("kubectl", "get", "nodes", "-o", "name").Output()
		for _, node := range strings.Fields(string(out)) {
			exec.Command("kubectl", what, node).Run()
		}
	}
	defer nodes("uncordon")
	for turn := 0; ; turn++ {
		nodes([]string{"uncordon", "uncordon", "cordon"}[turn%3])
		select {
		case <-stop:
			return deleted, killed
		case <-time.After(time.Duration(1000+r.IntN(2000)) * time.Millisecond):
		}
		workers := pool.Stats().Processes
		if len(workers) == 0 {
			continue
		}
		id := workers[r.IntN(len(workers))].ID
		args := [][]string{{"--grace-period=0", "--force"}, {"--grace-period=1"}}[r.IntN(2)]
		if r.IntN(2) == 0 && killPod(id) {
			killed++
		} else if exec.Command("kubectl", append([]string{"delete", "pod", id, "--wait=false"}, args...)...).Run() == nil {
			deleted++
		}
	}
}

// killPod sends a SIGKILL to a pod's program, where its node is this machine.
func killPod(name string) bool {
	uid, err := exec.Command("kubectl", "get", "pod", name, "-o", "jsonpath={.metadata.uid}").Output()
	if err != nil || len(uid) == 0 {
		return false
	}
	self, _ := os.Readlink("/proc/self/exe")
	for _, pid := range fibertest.Pids() {
		group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !strings.Contains(string(group), string(uid)) {
			continue
		}
		if exe := fibertest.CommandOf(pid); strings.Contains(exe, "program") && exe != self {
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

var _ = fibertest.MainProgram("havoc", func(ctx context.Context) error {
	seed := fibertest.ChaosSeed()
	pool, err := fiber.NewPool(havocWorkers, fiber.WithMaxAttempts(20), fiber.WithMeta(meta.Memory(150)))
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		return err
	}
	if err := table.PutMany(ctx, fibertest.SlicesOf(2000, havocMeals)); err != nil {
		return err
	}
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	stop, deleted, killed := make(chan struct{}), 0, 0
	var raging sync.WaitGroup
	raging.Go(func() { deleted, killed = havoc(pool, seed, stop) })
	ins := make([]feast, havocTasks)
	for i, c := range fibertest.ChoresFrom(seed, havocTasks) {
		c.Micros *= 20
		ins[i] = feast{Chore: c}
		if i%100 == 50 {
			ins[i].Table = table
		}
	}
	outs, err := fiber.Map(ctx, pool, feasts, ins)
	close(stop)
	raging.Wait()
	if err != nil {
		return err
	}
	for i, out := range outs {
		if out != i*7+1 {
			return fmt.Errorf("task %d gave %d", i, out)
		}
	}
	if len(outs) != len(ins) || deleted+killed == 0 {
		return fmt.Errorf("%d results of %d, %d pods deleted, %d killed", len(outs), len(ins), deleted, killed)
	}
	fmt.Println("held,", deleted, "deleted,", killed, "killed, lost", pool.Stats().WorkersLost)
	return nil
})

func TestChaosOfPods(t *testing.T) {
	needCluster(t)
	seed := os.Getenv(fibertest.SeedKey)
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1_000_000))
	}
	t.Log(fibertest.SeedKey + "=" + seed)
	t.Cleanup(func() {
		for _, node := range strings.Fields(kubectl(t, "get", "nodes", "-o", "name")) {
			kubectl(t, "uncordon", node)
		}
	})
	x := clustered(t, "havoc", fibertest.ArgKey+"="+seed)
	require.Zero(t, x.Wait(5*time.Minute), x.Err.String())
	require.Contains(t, x.Out.String(), "held")
	require.Contains(t, x.Err.String(), "OOMKilled")
	require.Empty(t, podsOf(t, x))
	t.Log(x.Out.String())
}
