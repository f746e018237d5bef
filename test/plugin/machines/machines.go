//go:build linux

// Package machines is a backend that others could have written: it plays several
// machines on this one. A machine is a directory and, if this process is root, a
// network namespace. A program that imports the package has it as
// FIBER_BACKEND=machines.
package machines

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

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

// Backend runs jobs on its machines: each is a job of the local backend, with
// commands in front that put it on its machine.
type Backend struct {
	*local.Backend
	gpus []string
	id   [3]byte // in the names and addresses of the machines

	mu       sync.Mutex
	dir      string // of the machines' directories
	machines []*machine
	ways     []net.Listener // to this process
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
	gpus := strings.FieldsFunc(o.Setting("machines_gpus"), func(r rune) bool { return r == ',' })
	b := &Backend{Backend: local.New(), gpus: gpus, machines: make([]*machine, n)}
	rand.Read(b.id[:])
	return b
}

// Name is "machines".
func (*Backend) Name() string { return "machines" }

// AvoidsMachines says that the machines can be avoided.
func (*Backend) AvoidsMachines() {}

// Accelerators returns the GPUs of the settings.
func (b *Backend) Accelerators(context.Context) ([]string, error) { return b.gpus, nil }

// Network says where this process is: at an address of this machine that all others
// can dial.
func (b *Backend) Network(context.Context) (backend.Network, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return backend.Network{Host: b.address(0, 1), Bind: "127.0.0.1"}, b.make()
}

// Forward lets the machines reach this process, which listens on the loopback interface.
func (b *Backend) Forward(_ context.Context, to net.Addr) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, err := net.Listen("tcp", b.address(0, 1)+":0")
	if err != nil {
		return "", err
	}
	b.ways = append(b.ways, l)
	go func() {
		for in, err := l.Accept(); err == nil; in, err = l.Accept() {
			go pass(in.(*net.TCPConn), to)
		}
	}()
	return l.Addr().String(), nil
}

// pass passes on what comes from either end, until both have ended.
func pass(in *net.TCPConn, to net.Addr) {
	defer in.Close()
	out, err := net.DialTCP("tcp", nil, to.(*net.TCPAddr))
	if err != nil {
		return
	}
	defer out.Close()
	var both sync.WaitGroup
	for _, ends := range [][2]*net.TCPConn{{in, out}, {out, in}} {
		both.Go(func() {
			io.Copy(ends[0], ends[1])
			ends[0].CloseWrite()
		})
	}
	both.Wait()
}

// Launch starts a job on the machine with the fewest, if possible on none that it
// is to avoid.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.make(); err != nil {
		return nil, job.Failure(b, spec.Name, err, false)
	}
	m := slices.MinFunc(b.machines, func(x, y *machine) int {
		return load(x, spec.Avoid) - load(y, spec.Avoid)
	})
	own, _ := os.Executable()                                // if this fails, so does the next line
	path, err := exec.LookPath(cmp.Or(spec.Executable, own)) // the commands in front of it would start, and fail
	if err != nil {
		return nil, job.Failure(b, spec.Name, job.Refuse(err), true)
	}
	front := []string{"-C", m.dir, "MACHINE=" + m.name}
	if m.space != "" {
		front = append(front, "ip", "netns", "exec", m.space)
	}
	spec.Executable, spec.Args = "/usr/bin/env", slices.Concat(front, []string{path}, spec.Args)
	j, err := b.Backend.Launch(ctx, spec)
	if err != nil {
		return nil, job.Failure(b, spec.Name, errors.Unwrap(err), false)
	}
	m.jobs++
	go func() {
		j.Wait(context.Background())
		b.mu.Lock()
		m.jobs--
		b.mu.Unlock()
	}()
	return process{j, m.name}, nil
}

// process is a job: a process of this machine that takes itself for one of another.
type process struct {
	backend.Job
	machine string
}

func (p process) Host() string { return p.machine }

func load(m *machine, avoid []string) int {
	if slices.Contains(avoid, m.name) {
		return m.jobs + 1<<20
	}
	return m.jobs
}

// address returns an address in the network that machine i shares with this one
// alone: 1 is this machine's, which all others can reach, too, and 2 is the other's.
func (b *Backend) address(i, end int) string {
	if os.Geteuid() != 0 {
		return "127.0.0.1"
	}
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
	for _, l := range b.ways {
		errs = append(errs, l.Close())
	}
	clear(b.machines)
	b.ways = nil
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
