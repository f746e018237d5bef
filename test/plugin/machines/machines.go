//go:build linux

// Package machines is a backend that others could have written: it plays several
// machines on this one. A machine is a directory and, if this process is root, a
// network namespace. A program that imports the package has it as
// FIBER_BACKEND=machines.
package machines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/backend/local"
)

func init() {
	backend.Register(backend.Plugin{
		Name: "machines",
		Make: func(o backend.Options) (backend.Backend, error) { return New(o), nil },
		Settings: []backend.Setting{
			{Key: "machines_count", Meaning: "How many machines there are.", Default: "2", Allowed: "a number from 1 to 60",
				Fits: func(s string) bool { n, err := strconv.Atoi(s); return err == nil && n >= 1 && n <= 60 }},
			{Key: "machines_gpus", Meaning: "The GPUs that they share, separated by commas."},
		},
	})
}

// Backend runs jobs on its machines.
type Backend struct {
	executable string
	gpus       []string
	log        *slog.Logger
	id         [3]byte // in the names and addresses of the machines

	mu       sync.Mutex
	dir      string // of the machines' directories
	machines []*machine
}

type machine struct {
	name  string // machine0, machine1, …
	dir   string
	space string // its network namespace, "" for none
	jobs  int
}

// New returns the backend. Its machines are made when the first one is needed.
func New(o backend.Options) *Backend {
	n, _ := strconv.Atoi(o.Setting("machines_count")) // it was checked
	b := &Backend{executable: o.Setting("executable"), log: o.Log, machines: make([]*machine, n)}
	rand.Read(b.id[:])
	if gpus := o.Setting("machines_gpus"); gpus != "" {
		b.gpus = strings.Split(gpus, ",")
	}
	return b
}

// Name is "machines".
func (*Backend) Name() string { return "machines" }

// AvoidsMachines says that the machines can be avoided.
func (*Backend) AvoidsMachines() {}

// Accelerators returns the GPUs of the settings.
func (b *Backend) Accelerators(context.Context) ([]string, error) { return b.gpus, nil }

// Network says where jobs reach this process: at an address that all machines can
// dial, or else at this machine's own.
func (b *Backend) Network(context.Context) (backend.Network, error) {
	if os.Geteuid() == 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return backend.Network{Host: b.address(0, 1)}, b.make()
	}
	return backend.Network{Host: "127.0.0.1", Bind: "127.0.0.1"}, nil
}

// Launch starts a job on the machine with the fewest, if possible on none that it
// is to avoid.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	j, err := b.launch(ctx, spec)
	if err != nil {
		return nil, job.Failure(b, spec.Name, err, false)
	}
	return j, nil
}

func (b *Backend) launch(ctx context.Context, spec backend.JobSpec) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.make(); err != nil {
		return nil, err
	}
	m := slices.MinFunc(b.machines, func(x, y *machine) int {
		return load(x, spec.Avoid) - load(y, spec.Avoid)
	})
	path := spec.Executable
	if path == "" {
		path, _ = os.Executable() // if this fails, so does starting it
	}
	if _, err := exec.LookPath(path); err != nil { // "ip netns exec" would start, and fail
		return nil, job.Refuse(err)
	}
	args := append([]string{path}, spec.Args...)
	if m.space != "" {
		args = append([]string{"ip", "netns", "exec", m.space}, args...)
	}
	limits := backend.Limits(spec.Resources)
	if spec.Devices != nil {
		limits["CUDA_VISIBLE_DEVICES"] = strings.Join(spec.Devices, ",")
	}
	p := &process{Life: job.New(), backend: b, on: m, cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Dir, p.cmd.Env = m.dir, backend.With(slices.Concat(spec.Env, spec.Public), limits)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = both(p.Output, spec.Stdout), both(p.Output, spec.Stderr)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	m.jobs++
	go p.reap(spec)
	if spec.Resources.Memory > 0 {
		go p.watch(spec.Resources.Memory)
	}
	return p, nil
}

// both returns a writer to the log, and to what else takes the output.
func both(log, other io.Writer) io.Writer {
	if other == nil {
		return log
	}
	return io.MultiWriter(log, other)
}

func load(m *machine, avoid []string) int {
	if slices.Contains(avoid, m.name) {
		return m.jobs + 1<<20
	}
	return m.jobs
}

// address returns an address in the network that machine i shares with this one
// alone: 1 is this machine's, which all others can reach, too, and 2 is the other's.
func (b *Backend) address(i, end int) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+b.id[0]%64, b.id[1], 4*i+end)
}

// make makes the machines.
func (b *Backend) make() (err error) {
	if b.dir != "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.remove())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "machines"); err != nil {
		return err
	}
	for i := range b.machines {
		m := &machine{name: "machine" + strconv.Itoa(i), dir: filepath.Join(b.dir, strconv.Itoa(i))}
		b.machines[i] = m
		if err := os.Mkdir(m.dir, 0o755); err != nil {
			return err
		}
		if os.Geteuid() != 0 {
			continue
		}
		m.space = fmt.Sprintf("fiber-%x-%d", b.id, i)
		end := fmt.Sprintf("f%x-%d", b.id, i)
		here, there := b.address(i, 1), b.address(i, 2)
		for _, args := range [][]string{
			{"netns", "add", m.space},
			{"link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", m.space},
			{"addr", "add", here + "/30", "dev", end},
			{"link", "set", end, "up"},
			{"-n", m.space, "link", "set", "lo", "up"},
			{"-n", m.space, "addr", "add", there + "/30", "dev", "eth0"},
			{"-n", m.space, "link", "set", "eth0", "up"},
			{"-n", m.space, "route", "add", "default", "via", here},
		} {
			if err := ip(args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close removes the machines. Their jobs have ended.
func (b *Backend) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove()
}

func (b *Backend) remove() error {
	var errs []error
	for _, m := range b.machines {
		if m != nil && m.space != "" {
			errs = append(errs, ip("netns", "del", m.space)) // and its network
		}
	}
	clear(b.machines)
	errs = append(errs, os.RemoveAll(b.dir))
	b.dir = ""
	return errors.Join(errs...)
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// process is a job.
type process struct {
	*job.Life
	backend *Backend
	on      *machine
	cmd     *exec.Cmd
	over    atomic.Int64 // the limit in MiB, once more is used
}

// watch kills the process when it uses more than so many MiB.
func (p *process) watch(limit int) {
	for tick := time.Tick(100 * time.Millisecond); ; {
		select {
		case <-p.Done():
			return
		case <-tick:
		}
		if local.Resident(p.cmd.Process.Pid) > int64(limit)<<20 {
			p.over.Store(int64(limit))
			p.cmd.Process.Kill()
			return
		}
	}
}

// reap waits for the process's end.
func (p *process) reap(spec backend.JobSpec) {
	err := p.cmd.Wait() // also for its output
	for _, w := range []io.Writer{spec.Stdout, spec.Stderr} {
		if c, ok := w.(io.Closer); ok {
			c.Close()
		}
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it has started
	p.backend.mu.Lock()
	p.on.jobs--
	p.backend.mu.Unlock()
	status := backend.ExitStatus{Code: p.cmd.ProcessState.ExitCode()}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = job.Exited(128 + int(ws.Signal()))
	} else if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		status.Reason = err.Error()
	}
	if limit := p.over.Load(); limit > 0 {
		status = job.OutOfMemory(int(limit))
	}
	p.End(status, nil)
}

func (p *process) ID() string   { return strconv.Itoa(p.cmd.Process.Pid) }
func (p *process) Host() string { return p.on.name }

func (p *process) Signal(_ context.Context, sig backend.Signal) error {
	s := syscall.SIGTERM
	if sig == backend.Kill {
		s = syscall.SIGKILL
	}
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) Remove(ctx context.Context) error {
	return p.Finish(ctx, func() error { return p.Signal(ctx, backend.Kill) })
}
