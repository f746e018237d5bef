package tree

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fiber-go/fiber/internal/wire"
)

// ErrTooManyGPUs reports a request for more devices than there are.
var ErrTooManyGPUs = errors.New("more GPUs than the machine has")

// gpus hands out this machine's devices, so that no two processes of a run share
// one. Only the root has one; other processes ask it along the tree.
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
	return &gpus{all: devices, free: slices.Clone(devices)}
}

// acquire waits for n devices. If there are fewer altogether, the error is
// ErrTooManyGPUs.
func (g *gpus) acquire(ctx context.Context, n int) ([]string, error) {
	g.mu.Lock()
	if n < 0 {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: a request for %d GPUs", wire.ErrMalformed, n)
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

// serve hands free devices to waiting requests, in their order; mu is held.
func (g *gpus) serve() {
	for len(g.waiting) > 0 && len(g.free) >= g.waiting[0].n {
		w := g.waiting[0]
		g.waiting = g.waiting[1:]
		w.given <- slices.Clone(g.free[:w.n])
		g.free = slices.Delete(g.free, 0, w.n)
	}
}

// AcquireGPUs takes count devices from the root, all at once, for processes that
// are started together. It blocks until so many are free; release gives them
// back. If the engine manages the devices itself, AcquireGPUs returns none. The
// errors are those of Start; job names the processes in them.
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

// acquireGPUs is AcquireGPUs that heeds only ctx, and returns errors as they are.
func (n *Node) acquireGPUs(ctx context.Context, count int) (devices []string, release func(), err error) {
	if n.gpus == nil && n.Parent == nil { // the backend manages the devices
		return nil, func() {}, nil
	}
	if n.gpus != nil {
		if network, err := n.Network(ctx); len(n.gpus.all) == 0 && err == nil && !network.Inherit {
			return nil, func() {}, nil // the engine manages the devices
		}
		devices, err = n.gpus.acquire(ctx, count)
		return devices, func() { n.gpus.release(devices) }, err
	}
	answer, s, err := n.Parent.ask(ctx, &request{Do: doLend, GPUs: count})
	if err != nil {
		return nil, nil, err
	}
	return answer.Devices, func() { s.Close() }, nil
}

// loan is devices that are lent to the processes below a child.
type loan struct {
	devices []string
	release func()
}

// lend acquires GPUs for a process below, and gives them back when it closes the stream.
func (c *Child) lend(s net.Conn, r *request) {
	wanted := whileOpen(s)
	devices, release, err := c.node.acquireGPUs(wanted, r.GPUs)
	if err != nil {
		refuse(s, err)
		return
	}
	l := &loan{devices, release}
	c.mu.Lock()
	c.loans = append(c.loans, l)
	c.mu.Unlock()
	wire.Write(s, reply{Devices: devices})
	<-wanted.Done()
	if c.conn.Err() != nil {
		return // the child may use them until it has ended: see end
	}
	c.mu.Lock()
	c.loans = slices.DeleteFunc(c.loans, func(other *loan) bool { return other == l })
	c.mu.Unlock()
	release()
}

// holds says whether all of the devices are on loan to the processes below a
// child, each once.
func (c *Child) holds(devices []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lent []string
	for _, l := range c.loans {
		lent = append(lent, l.devices...)
	}
	for _, d := range devices {
		i := slices.Index(lent, d)
		if i < 0 {
			return false
		}
		lent = slices.Delete(lent, i, i+1)
	}
	return true
}
