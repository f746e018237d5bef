// Package self says which process the calling goroutine is in, what that process is made of, and how it ends itself. A
// program is one process, except on the backend inline and in a simulated run, where each process is a group of goroutines.
package self

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Self is a process. What is said to be of simulated processes is nil in others.
type Self struct {
	PID            int
	Stdout, Stderr io.Writer

	Net  Net
	Disk Disk // of simulated processes: where their records are

	Base    context.Context   // of simulated processes: what the contexts of their functions are derived from
	Env     map[string]string // of simulated processes: how they were started, empty in a root
	Backend backend.Backend   // of simulated processes: in the place of the configured one

	Notify func(c chan<- os.Signal, signals ...os.Signal) // has signals sent to c instead of ending the process
	Die    func(s syscall.Signal)                         // ends as an unhandled signal ends it; does not return
	Exit   func(code int)                                 // does not return

	State atomic.Pointer[any] // the root package's; nil until it is initialised
	Init  lock.Lock           // held while State changes
}

// Context returns what the contexts of the process's functions are derived from.
func (s *Self) Context() context.Context {
	if s.Base != nil {
		return s.Base
	}
	return context.Background()
}

// Net makes sockets.
type Net interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Disk has files, which outlive processes.
type Disk interface {
	OpenFile(path string, flag int, mode fs.FileMode) (File, error)
	Rename(from, to string) error
	Link(from, to string) error
	Remove(path string) error
	SyncDir(path string) error // returns when the disk has the names of a directory's files
}

// File is a file that is open, as os.File is.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	Lock() error // until Close; EWOULDBLOCK if another File of it has it locked
}

// Trusted says of a socket whether it leads to a process of the run for sure. It then needs no TLS.
func Trusted(nc net.Conn) bool {
	t, ok := nc.(interface{ Trusted() bool })
	return ok && t.Trusted()
}

// sockets is the system's Net.
type sockets struct {
	net.Dialer
	net.ListenConfig
}

func (s *sockets) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if by := Simulated(); by != nil && by.Net(address) != nil {
		return by.Net(address).DialContext(ctx, network, address)
	}
	return s.Dialer.DialContext(ctx, network, address)
}

func (s *sockets) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if by := Simulated(); by != nil && by.Net(address) != nil {
		return by.Net(address).Listen(ctx, network, address)
	}
	return s.ListenConfig.Listen(ctx, network, address)
}

// Simulation finds simulated processes.
type Simulation interface {
	// Of returns the process of the calling goroutine, nil if that is in none.
	Of() *Self
	// Bind binds f to the process of the calling goroutine, whoever calls it: a timer, or, if garbage is set, the runtime once
	// something is garbage. Then f runs later.
	Bind(f func(), garbage bool) func()
	// Net returns what makes sockets of that address, nil for real ones.
	Net(address string) Net
}

var simulation atomic.Pointer[Simulation]

// Simulate is called before a simulated process starts.
func Simulate(by Simulation) { simulation.Store(&by) }

// Simulated returns what finds simulated processes, nil if this program has none.
func Simulated() Simulation {
	if by := simulation.Load(); by != nil {
		return *by
	}
	return nil
}

// Of returns the process that the calling goroutine is in.
func Of() *Self {
	if by := Simulated(); by != nil {
		if s := by.Of(); s != nil {
			return s
		}
	}
	return system
}

// AfterFunc is time.AfterFunc: f runs in the process that the calling goroutine is in.
func AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, bind(f, false)) }

// AfterEnd is context.AfterFunc, as AfterFunc is time.AfterFunc: a timer may have ended ctx.
func AfterEnd(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, bind(f, false))
}

// BindGarbage returns f for runtime.AddCleanup: it runs in the process that the calling goroutine is in.
func BindGarbage(f func()) func() { return bind(f, true) }

func bind(f func(), garbage bool) func() {
	if by := Simulated(); by != nil {
		f = by.Bind(f, garbage)
	}
	return f
}

// system is the process that the system knows.
var system = &Self{PID: os.Getpid(), Notify: signal.Notify, Exit: os.Exit, Die: die, Net: new(sockets),
	Stdout: stdio.Stdout, Stderr: stdio.Stderr}

func die(s syscall.Signal) {
	signal.Reset(s)
	if p, err := os.FindProcess(os.Getpid()); err == nil && p.Signal(s) == nil {
		select {}
	}
	os.Exit(128 + int(s))
}
