package tree

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
)

// gpus hands out this machine's devices, or the backend's own, so that no two
// processes of a run share one. Only the root has one; other processes ask it along
// the tree.
type gpus struct {
	all  []string
	room *semaphore.Weighted // what free has room for; first come, first served

	mu   sync.Mutex
	free []string
}

// localDevices lists this machine's GPUs: those that CUDA_VISIBLE_DEVICES
// leaves to this program, or else all that the NVIDIA driver shows.
func localDevices() []string {
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		var devices []string
		for _, d := range strings.Split(visible, ",") {
			d = strings.TrimSpace(d)
			if d == "-1" { // CUDA ignores all devices after an invalid one
				break
			}
			if d != "" {
				devices = append(devices, d)
			}
		}
		return devices
	}
	cards, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
	devices := make([]string, len(cards))
	for i := range cards {
		devices[i] = fmt.Sprint(i)
	}
	return devices
}

func newGPUs(devices []string) *gpus {
	return &gpus{all: devices, free: slices.Clone(devices), room: semaphore.NewWeighted(int64(len(devices)))}
}

// acquire waits for n devices. If there are fewer altogether, the error is a
// permanent *backend.LaunchError.
func (g *gpus) acquire(ctx context.Context, n int) ([]string, error) {
	if n < 0 {
		return nil, fmt.Errorf("%w: a request for %d GPUs", wire.ErrMalformed, n)
	}
	if n > len(g.all) {
		return nil, &backend.LaunchError{Permanent: true, Reason: fmt.Sprintf("more GPUs than the machine has: meta.GPU(%d), and this machine has %d for this program; ask for fewer, or set CUDA_VISIBLE_DEVICES", n, len(g.all))}
	}
	if err := g.room.Acquire(ctx, int64(n)); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	devices := slices.Clone(g.free[:n])
	g.free = g.free[n:]
	return devices, nil
}

func (g *gpus) release(devices []string) {
	g.mu.Lock()
	g.free = slices.Concat(g.free, devices)
	g.mu.Unlock()
	g.room.Release(int64(len(devices)))
}

// AcquireGPUs takes count devices from the root, all at once, for processes that
// are started together. It blocks until so many are free; release gives them
// back. If the engine manages the devices itself, AcquireGPUs returns none. The
// errors are those of Start; job names the processes in them.
func (n *Node) AcquireGPUs(ctx context.Context, job string, count int) (devices []string, release func(), err error) {
	_, left, err := n.enter("GPUs for " + job)
	if err != nil {
		return nil, nil, err
	}
	defer left()
	ctx, giveUp := n.whileStarting(ctx)
	defer giveUp(nil)
	if devices, release, err = n.acquireGPUs(ctx, count); err != nil {
		s := &start{Child: &Child{node: n, spec: Spec{Name: job}}}
		return nil, nil, s.failed(ctx, err)
	}
	return devices, release, nil
}

// acquireGPUs is AcquireGPUs that heeds only ctx, and returns errors as they are.
func (n *Node) acquireGPUs(ctx context.Context, count int) (devices []string, release func(), err error) {
	if n.Parent == nil {
		g, err := n.devices(ctx)
		if g == nil {
			return nil, func() {}, err
		}
		devices, err = g.acquire(ctx, count)
		return devices, func() { g.release(devices) }, err
	}
	answer, s, err := n.Parent.ask(ctx, &request{Do: doLend, GPUs: count})
	if err != nil {
		return nil, nil, err
	}
	return answer.Devices, func() { s.Close() }, nil
}

// devices returns the root's devices, nil if the backend assigns them itself.
func (n *Node) devices(ctx context.Context) (*gpus, error) {
	if n.places {
		return nil, nil
	}
	g, err := n.gpus.Make(ctx, func() (*gpus, error) {
		own, equipped := n.Backend.(backend.Equipped)
		if !equipped {
			return newGPUs(localDevices()), nil
		}
		all, err := own.Accelerators(ctx)
		return newGPUs(all), err
	})
	if _, equipped := n.Backend.(backend.Equipped); err != nil || equipped || len(g.all) > 0 {
		return g, err
	}
	if network, err := n.Network(ctx); err == nil && !network.Inherit {
		return nil, nil // the engine manages them
	}
	return g, nil
}

// loans are the GPUs on loan to a child, and to the processes below it.
type loans struct {
	lent    []string // to the child
	release func()   // gives these back

	mu    sync.Mutex
	below []string // on loan to the processes below
}

// lend acquires GPUs for a process below, and gives them back when it closes the
// stream. If the child's connection ends, it may use them until it has ended.
func (c *Child) lend(s net.Conn, r *request) {
	wanted, closed := context.WithCancel(context.Background())
	go func() { // nothing comes after the request but the end
		io.Copy(io.Discard, s)
		closed()
	}()
	devices, release, err := c.node.acquireGPUs(wanted, r.GPUs)
	if err != nil {
		refuse(s, err)
		return
	}
	c.loans.mu.Lock()
	c.below = append(c.below, devices...)
	c.loans.mu.Unlock()
	wire.Write(s, reply{Devices: devices})
	<-wanted.Done()
	if c.conn.Err() != nil {
		<-c.reaped
	}
	c.loans.mu.Lock()
	c.below = slices.DeleteFunc(c.below, func(d string) bool { return slices.Contains(devices, d) })
	c.loans.mu.Unlock()
	release()
}

// holds says whether all of the devices are on loan to the processes below the
// child, each once.
func (l *loans) holds(devices []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lent := slices.Clone(l.below)
	for _, d := range devices {
		i := slices.Index(lent, d)
		if i < 0 {
			return false
		}
		lent = slices.Delete(lent, i, i+1)
	}
	return true
}
