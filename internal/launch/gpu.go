package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fiber-go/fiber/internal/wire"
)

// ErrTooManyGPUs is asking for more devices than there are.
var ErrTooManyGPUs = errors.New("more GPUs than the machine has")

// gpus hands out this machine's devices, so that no two processes of a run
// share one. It is the root's; other processes ask upward.
type gpus struct {
	mu      sync.Mutex
	all     []string
	free    []string
	waiting []*gpuWaiter // first come, first served
}

type gpuWaiter struct {
	n     int
	given chan []string
}

// localDevices lists this machine's GPUs: those that CUDA_VISIBLE_DEVICES
// leaves to this program, or else all that the NVIDIA driver shows.
func localDevices() []string {
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		var devices []string
		for _, d := range strings.Split(visible, ",") {
			d = strings.TrimSpace(d)
			if d == "-1" { // CUDA ignores what stands behind an invalid device
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
	return &gpus{all: devices, free: slices.Clone(devices)}
}

// acquire waits for n devices. Asking for more than there are is an error.
func (g *gpus) acquire(ctx context.Context, n int) ([]string, error) {
	g.mu.Lock()
	if n < 0 {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: %d GPUs are asked for", wire.ErrMalformed, n)
	}
	if n > len(g.all) {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: meta.GPU(%d), and this machine has %d for this program; ask for fewer, or set CUDA_VISIBLE_DEVICES", ErrTooManyGPUs, n, len(g.all))
	}
	w := &gpuWaiter{n: n, given: make(chan []string, 1)}
	g.waiting = append(g.waiting, w)
	g.serve()
	g.mu.Unlock()
	select {
	case devices := <-w.given:
		return devices, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // given just now
		g.free = append(g.free, <-w.given...)
	}
	g.serve()
	return nil, ctx.Err()
}

func (g *gpus) release(devices []string) {
	if len(devices) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, devices...)
	g.serve()
}

// serve gives free devices to those who wait; mu is held.
func (g *gpus) serve() {
	for len(g.waiting) > 0 && len(g.free) >= g.waiting[0].n {
		w := g.waiting[0]
		g.waiting = g.waiting[1:]
		w.given <- slices.Clone(g.free[:w.n])
		g.free = slices.Delete(g.free, 0, w.n)
	}
}

// AcquireGPUs takes devices from the root, all at once, for processes that are
// started together, and waits until there are so many; release gives them back.
// They are none where the engine knows what there is. job names the processes in
// an error, which is one of Start's.
func (n *Node) AcquireGPUs(ctx context.Context, job string, count int) (devices []string, release func(), err error) {
	if _, err := n.enter(); err != nil {
		return nil, nil, err
	}
	defer n.starting.Done()
	ctx, stop := n.whileStarting(ctx)
	defer stop()
	if devices, release, err = n.acquireGPUs(ctx, count); err != nil {
		c := &Child{node: n, spec: Spec{Name: job}}
		return nil, nil, c.failed(ctx, "", err)
	}
	return devices, release, nil
}

// acquireGPUs is AcquireGPUs with ctx alone, and errors as they are.
func (n *Node) acquireGPUs(ctx context.Context, count int) (devices []string, release func(), err error) {
	if n.gpus == nil && n.Parent == nil { // the backend hands them out
		return nil, func() {}, nil
	}
	if n.gpus != nil {
		if network, err := n.Network(ctx); len(n.gpus.all) == 0 && err == nil && !network.Inherit {
			return nil, func() {}, nil // the engine knows what there is
		}
		devices, err = n.gpus.acquire(ctx, count)
		return devices, func() { n.gpus.release(devices) }, err
	}
	answer, err := n.Parent.ask(ctx, askGPU, count, nil)
	if err != nil {
		return nil, nil, err
	}
	return answer, func() { n.releaseGPUs(answer) }, nil
}

// releaseGPUs gives devices back to the root.
func (n *Node) releaseGPUs(devices []string) {
	if n.gpus != nil {
		n.gpus.release(devices)
	} else if len(devices) > 0 && n.Parent != nil {
		n.Parent.ask(context.Background(), askGPUBack, 0, devices)
	}
}
