package fiber

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/runs"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/warden"
	"github.com/fiber-go/fiber/transport"
)

// process is the state of this process while it is initialised.
type process struct {
	node    *tree.Node
	objects *object.Server // those that live here, and the connections to the others
	// homes are the managers that this process has started: *tree.Child by the
	// endpoint of their home.
	homes sync.Map

	handles live[object.Ref, handle]
	ends    live[endName, pipeEnd] // in values that are being decoded
	shared  sharedCache
	states  states
	pools   live[uint64, Pool] // by their number

	handTime time.Duration // to hand over shared values at the end; 0 for the usual time

	announced *runs.Announced // in the root; nil in others

	closeLog func(patience time.Duration) // hands over what is left of the log

	shares    bool                // it had objects when sample was called last
	failure   error               // what Main's function has returned
	page      string              // the dashboard's address, "" for none
	endReport func(runErr string) // waits until FIBER_REPORT and FIBER_TRACE are written, and ends FIBER_DASHBOARD and FIBER_METRICS; may be nil
}

// here returns the state of the process that the calling goroutine is in, nil unless it is initialised.
func here() *process {
	if state := self.Of().State.Load(); state != nil {
		return (*state).(*process)
	}
	return nil
}

// running returns the state of this process, or ErrNotInitialized.
func running() (*process, error) {
	p := here()
	if p == nil {
		return nil, ErrNotInitialized
	}
	return p, nil
}

func enter(node *tree.Node, closeLog func(patience time.Duration)) {
	opts := object.Options{Name: node.Name, MaxMessage: int64(node.Config.MaxMessage), HeartbeatTimeout: node.Config.HeartbeatTimeout,
		Listen: node.Listen, Dial: node.Dial, Ended: tree.ErrShutdown, Log: node.Log, Segments: node.Segments}
	if node.Parent != nil {
		opts.Catalog = func(ctx context.Context) (ref object.Ref, err error) {
			name, err := node.Parent.Catalog(ctx)
			if err == nil {
				err = ref.UnmarshalBinary(name)
			}
			return ref, err
		}
	}
	h := object.New(opts)
	node.Catalog = func() ([]byte, error) {
		ref, err := h.Catalog()
		if err != nil {
			return nil, err
		}
		return ref.MarshalBinary()
	}
	p := &process{node: node, objects: h, closeLog: closeLog}
	node.Events.Sample(p.sample)
	var state any = p
	self.Of().State.Store(&state)
}

// logPatience bounds how long the end of a run waits for Config.Logger.
const logPatience = 2 * time.Second

// newBackend makes the configured backend.
func newBackend(cfg config.Config, log *slog.Logger) (backend.Backend, error) {
	if b := self.Of().Backend; b != nil {
		return b, nil
	}
	p, found := backend.Named(cfg.Backend)
	if !found {
		return nil, fmt.Errorf("fiber: backend %q is not in this build", cfg.Backend)
	}
	b, err := p.Make(backend.Options{Setting: cfg.Text, Log: log})
	if err == nil && b == nil {
		err = fmt.Errorf("fiber: backend %s: its Make has returned nil and no error", cfg.Backend)
	}
	return b, err
}

func processName() string {
	if proc := here(); proc != nil {
		return proc.node.Name
	}
	return "MainProcess"
}

// fits returns an error if an encoded value is too large for a message.
func (p *process) fits(frames [][]byte) error { return p.fitsSize(codec.Size(frames)) }

func (p *process) fitsSize(size int) error {
	if size, limit := size+messageOverhead, int64(p.node.Config.MaxMessage); int64(size) > limit {
		return tooLarge(&transport.SizeError{Size: int64(size), Limit: limit})
	}
	return nil
}

// messageOverhead is the room that a message needs besides its value.
const messageOverhead = 1 << 10

// handOver gives the main process, within so much time, the values that this one has shared.
func (p *process) handOver(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if lost, err := p.objects.HandOver(ctx); lost > 0 {
		p.node.Log.Warn("fiber: shared values are lost with the process that has shared them", "process", p.node.Name, "values", lost, "error", err)
	}
}

// leave is Shutdown.
func leave(ctx context.Context) error {
	me := self.Of()
	me.Init.Lock(context.WithoutCancel(ctx))
	defer me.Init.Unlock()
	if p := here(); p != nil {
		return p.leave(ctx)
	}
	return nil
}

// leave is Shutdown of a process that is initialised. The lock of Init is held.
func (p *process) leave(ctx context.Context) error {
	p.objects.Leave()
	err := p.node.Shutdown(ctx)
	warden.Close()
	p.handOver(cmp.Or(p.handTime, p.node.Config.ShutdownGrace+p.node.Config.HeartbeatTimeout))
	p.objects.Close()
	if p.announced != nil {
		p.announced.Close()
	}
	p.lastEvents()
	p.node.RemoveDirectory()
	p.closeLog(logPatience)
	self.Of().State.Store(nil)
	return err
}
