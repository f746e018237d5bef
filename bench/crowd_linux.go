package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A crowd is thousands of workers in one process. They are connected and behave as others do, but so many processes would not fit
// on one machine. The pool is in a process of its own, too, of which the rows show what it costs.

// crowdName is the name of the backend that puts its workers in a crowd.
const crowdName = "crowd"

// crowdSizes are the sizes of pools, the largest first.
var crowdSizes = []int{10_000, 1000, 100, 10}

var crowdRows = []row{
	{name: "crowd/10000-task", unit: duration, pairs: 2, open: func(_ context.Context, m *match) error {
		return openCrowd(m, "crowd-task")
	}},
	{name: "crowd/10000-memory", unit: mebibytes, pairs: 2, open: func(_ context.Context, m *match) error {
		return openCrowd(m, "crowd-memory")
	}},
}

// openCrowd measures what a pool's process spends on a task or a worker, with 10,000 workers against fewer.
func openCrowd(m *match, what string) error {
	for i, size := range crowdSizes {
		c := contender{name: fmt.Sprint(size, " workers"), ops: 1, run: func(context.Context, int) (float64, error) {
			e, err := startElsewhere("", elsewhereVariable+"="+crowdName) // its memory is that of this pool alone
			if err != nil {
				return 0, err
			}
			defer e.close()
			return e.do(fmt.Sprint(what, " ", size))
		}}
		switch {
		case i == 0:
			m.subject = c
		case size < 1000 && what == "crowd-memory": // what these take is lost in what the process takes anyway
		default:
			m.references = append(m.references, reference{contender: c, bound: atMost(2)})
		}
	}
	return nil
}

const (
	crowdRate   = 10_000                // tasks a second at most, however many workers there are
	crowdNap    = 20 * time.Millisecond // a task takes at least that long: several short ones would travel together
	crowdRounds = 3                     // tasks of each worker
	crowdTasks  = 1000                  // at least
)

// crowdCost returns the processor seconds of this process for a task, or the MiB for a worker.
func crowdCost(ctx context.Context, what string, size int) (float64, error) {
	before, err := proportional([]int{os.Getpid()})
	if err != nil {
		return 0, err
	}
	pool, err := fiber.NewPool(size)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return 0, err
	}
	tasks := max(crowdTasks, crowdRounds*size)
	ins := make([]time.Duration, tasks)
	for i := range ins {
		ins[i] = max(crowdNap, time.Duration(size)*time.Second/crowdRate)
	}
	if _, err := fiber.Map(ctx, pool, nap, ins[:size], fiber.ChunkSize(1)); err != nil {
		return 0, err
	}
	if what == "crowd-memory" {
		after, err := proportional([]int{os.Getpid()})
		return (after - before) / float64(size), err
	}
	begun := processor()
	if _, err := fiber.Map(ctx, pool, nap, ins, fiber.ChunkSize(1)); err != nil {
		return 0, err
	}
	return (processor() - begun).Seconds() / float64(tasks), nil
}

func init() {
	if os.Getenv(elsewhereVariable) == crowdName {
		backend.Register(backend.Plugin{Name: crowdName, Make: func(backend.Options) (backend.Backend, error) { return new(crowd), nil }})
	}
}

// crowd is the backend. It starts the process of the workers with the first of them.
type crowd struct {
	once    sync.Once
	cmd     *exec.Cmd
	control *net.UnixConn
	err     error

	mu   sync.Mutex
	jobs map[string]*member
}

// member is a worker as the backend sees it.
type member struct {
	*job.Life
	crowd   *crowd
	id      string
	outputs []io.Writer // what its parent would pass on; it writes nothing
}

// order is a message to the crowd: to start a worker, whose socket comes with it, or to end one.
type order struct {
	ID        string
	Bootstrap json.RawMessage `json:",omitempty"`
}

func (c *crowd) Name() string { return crowdName }

func (c *crowd) Network(context.Context) (backend.Network, error) {
	return backend.Network{Inherit: true}, nil
}

// Launch sends the crowd a worker's socket.
func (c *crowd) Launch(_ context.Context, spec backend.JobSpec) (backend.Job, error) {
	if c.once.Do(func() { c.err = c.start() }); c.err != nil {
		return nil, job.Failure(c, spec.Name, c.err, true)
	}
	m := &member{Life: job.New(), crowd: c, id: spec.Name, outputs: []io.Writer{spec.Stdout, spec.Stderr}}
	o := order{ID: spec.Name}
	for _, v := range append(spec.Env, spec.Public...) {
		if _, value, _ := strings.Cut(v, "="); strings.HasPrefix(value, `{"process"`) {
			o.Bootstrap = json.RawMessage(value)
		}
	}
	c.mu.Lock()
	c.jobs[m.id] = m
	c.mu.Unlock()
	if err := c.send(o, int(spec.Socket.Fd())); err != nil {
		return nil, job.Failure(c, spec.Name, err, false)
	}
	return m, nil
}

// start starts the crowd's process.
func (c *crowd) start() error {
	ours, theirs, err := packets()
	if err != nil {
		return err
	}
	defer theirs.Close()
	c.jobs = map[string]*member{}
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Env = append(os.Environ(), elsewhereVariable+"=", floorVariable+"="+crowdName)
	c.cmd.Stderr = os.Stderr
	c.cmd.ExtraFiles = []*os.File{theirs}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.control = ours
	go c.listen()
	return nil
}

// packets returns the two ends of a socket for orders.
func packets() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fds[0]), crowdName)
	defer file.Close()
	theirs = os.NewFile(uintptr(fds[1]), crowdName)
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

func (c *crowd) send(o order, fds ...int) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, _, err = c.control.WriteMsgUnix(text, syscall.UnixRights(fds...), nil)
	return err
}

// listen reads which workers have ended.
func (c *crowd) listen() {
	buf := make([]byte, 1000)
	for {
		n, err := c.control.Read(buf)
		c.mu.Lock()
		for id, m := range c.jobs {
			if err != nil || id == string(buf[:n]) {
				delete(c.jobs, id)
				m.end()
			}
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (m *member) end() {
	for _, w := range m.outputs {
		if c, ok := w.(io.Closer); ok {
			c.Close()
		}
	}
	m.End(job.Exited(0), nil)
}

// Close ends the crowd.
func (c *crowd) Close(context.Context) error {
	c.once.Do(func() { c.err = errors.New("the crowd is closed") })
	if c.control == nil {
		return nil
	}
	c.control.Close()
	return c.cmd.Wait()
}

func (m *member) ID() string   { return m.id }
func (m *member) Host() string { return crowdName }

func (m *member) Signal(context.Context, backend.Signal) error { return m.crowd.send(order{ID: m.id}) }

func (m *member) Remove(ctx context.Context) error {
	return m.Finish(ctx, func() error { return m.Signal(ctx, backend.Kill) })
}

// serveCrowd runs workers until there are no more orders. It does not return.
func serveCrowd() {
	conn, err := net.FileConn(os.NewFile(3, crowdName))
	if err != nil {
		panic(err)
	}
	control := conn.(*net.UnixConn)
	var mu sync.Mutex
	running := map[string]net.Conn{}
	text, rights := make([]byte, 64<<10), make([]byte, 1000)
	for {
		n, oob, _, _, err := control.ReadMsgUnix(text, rights)
		if err != nil || n == 0 {
			os.Exit(0)
		}
		var o order
		if err := json.Unmarshal(text[:n], &o); err != nil {
			panic(err)
		}
		mu.Lock()
		nc := running[o.ID]
		mu.Unlock()
		if o.Bootstrap == nil {
			if nc != nil {
				nc.Close()
			}
			continue
		}
		nc, err = received(rights[:oob])
		if err != nil {
			panic(err)
		}
		mu.Lock()
		running[o.ID] = nc
		mu.Unlock()
		go func() {
			if err := work(nc, o.Bootstrap); err != nil {
				fmt.Fprintln(os.Stderr, "bench: a worker of the crowd:", err)
			}
			nc.Close()
			mu.Lock()
			delete(running, o.ID)
			mu.Unlock()
			_, _ = control.Write([]byte(o.ID))
		}()
	}
}

// received returns the socket that came with an order.
func received(oob []byte) (net.Conn, error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages, %w", len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return transport.Inherit(fds[0])
}

// work is a worker, from its hello on. It ends when its pool says so.
func work(nc net.Conn, bootstrap []byte) error {
	var boot wire.Bootstrap
	if err := json.Unmarshal(bootstrap, &boot); err != nil {
		return err
	}
	conn, err := transport.Open(nc, false, transport.Options{MaxMessage: boot.MaxMessage, HeartbeatInterval: boot.Heartbeat, HeartbeatTimeout: -1})
	if err != nil {
		return err
	}
	defer conn.Close()
	hello := wire.Hello{Process: boot.Process, Version: wire.Version, Platform: runtime.GOOS + "/" + runtime.GOARCH, Build: tree.Build(),
		Hash: registry.Hash(), PID: os.Getpid()}
	if err := conn.Post(wire.MustPack(wire.KindHello, hello)...); err != nil {
		return err
	}
	frames, err := conn.Recv()
	if err != nil {
		return err
	}
	var assign wire.Assign
	if err := wire.Unpack(frames, &assign); err != nil {
		return fmt.Errorf("%v: %w", wire.KindOf(frames), err)
	}
	w := worker.Serve(context.Background(), parent{conn}, worker.Options{Concurrency: assign.Concurrency,
		Error: func(_ string, err error) *wire.Error { return &wire.Error{Message: err.Error()} }})
	if err := conn.Post(wire.MustPack(wire.KindReady, nil)...); err != nil {
		return err
	}
	_ = w.Wait() // an error is the end of the connection
	return conn.Flush(context.Background())
}

// parent is the connection to the pool's process.
type parent struct{ *transport.Conn }

func (p parent) Next(bool) (wire.Kind, [][]byte, error) {
	for {
		frames, err := p.Recv()
		if err != nil {
			return 0, nil, err
		}
		switch kind := wire.KindOf(frames); kind {
		case wire.KindTerminate, wire.KindBye:
		default:
			return kind, frames, nil
		}
	}
}
