package sim

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/self"
)

// Inline is the name of the backend whose processes are parts of this program, and of the machine that they are on.
const Inline = "inline"

// root is the process that uses the backend inline.
var root atomic.Pointer[Process]

// NewInline makes the backend inline. Its processes call child; end ends what they leave running.
func NewInline(child, end func()) backend.Backend {
	r := &Run{Program: Program{Child: child, End: end}, inline: true, begun: time.Now(), net: newNetwork(Plan{})}
	r.net.machines = []*machine{{name: Inline}}
	root.Store(&Process{run: r, machine: r.net.machines[0]})
	self.Simulate(simulation{})
	return &simulated{r}
}

// simulated is the backend that starts simulated processes, each on a machine that it chooses.
type simulated struct{ run *Run }

func (b *simulated) Name() string {
	if b.run.inline {
		return Inline
	}
	return "simulated"
}

func (*simulated) PlacesJobs()     {}
func (*simulated) AvoidsMachines() {}

func (b *simulated) Network(context.Context) (backend.Network, error) {
	if b.run.inline {
		return backend.Network{Host: Inline, Bind: Inline}, nil
	}
	return backend.Network{Host: Here().machine.name}, nil
}

// startTime is how long a start takes at most, without faults.
const startTime = 200 * time.Millisecond

func (b *simulated) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	r := b.run
	fault := r.startFault()
	if fault.Kind == "refused" {
		r.Log("the start of %s is refused", spec.Name)
		return nil, lives.Failure(b, spec.Name, errors.New("no room"), false)
	}
	if err := ctx.Err(); err != nil {
		return nil, lives.Failure(b, spec.Name, err, false)
	}
	if b.run.inline && spec.Executable != "" {
		return nil, lives.Failure(b, spec.Name, errors.New("processes are parts of this program: the setting executable can't name another one"), true)
	}
	env := map[string]string{}
	for _, v := range backend.With(append(spec.Env, spec.Public...), backend.Limits(spec.Resources)) {
		key, value, _ := strings.Cut(v, "=")
		env[key] = value
	}
	m, takes := r.net.place(startTime)
	j := &job{Life: lives.New(), machine: m, process: make(chan *Process, 1)}
	var passing sync.WaitGroup
	stdout, stderr := j.pass(&passing, spec.Stdout), j.pass(&passing, spec.Stderr)
	over := func(how backend.ExitStatus) {
		stdout.Close()
		stderr.Close()
		passing.Wait()
		j.End(how, nil)
	}
	if fault.Kind == "delayed" {
		takes += fault.For
	}
	go func() {
		time.Sleep(takes)
		p := r.start(m, spec.Name, env, stdout, stderr, r.Child, over)
		j.process <- p
		switch {
		case r.net.isDown(m): // it has failed since it was chosen
			p.signal(syscall.SIGKILL)
		case fault.Kind == "stillborn":
			time.Sleep(time.Duration(fault.A) * 20 * time.Microsecond) // before, during or after its hello
			p.signal(syscall.SIGKILL)
		}
	}()
	return j, nil
}

// job is a simulated process as its backend sees it.
type job struct {
	*lives.Life
	machine *machine
	process chan *Process // has the process once it has started
}

// pass returns what keeps an output of the process. A goroutine of the process that launches it passes that on.
func (j *job) pass(passing *sync.WaitGroup, to io.Writer) *output.Log {
	out := output.New(outputKept)
	passing.Go(func() {
		if to == nil {
			to = io.Discard
		}
		_, _ = io.Copy(io.MultiWriter(j.Output, to), out.Reader(context.Background(), true))
		if c, ok := to.(io.Closer); ok {
			c.Close()
		}
	})
	return out
}

// outputKept is more than a process writes before that is passed on.
const outputKept = 1 << 24

func (j *job) at() *Process {
	p := <-j.process
	j.process <- p
	return p
}

func (j *job) Pending() (string, bool) { return "", len(j.process) == 0 }

func (j *job) ID() string   { return strconv.Itoa(j.at().PID()) }
func (j *job) Host() string { return j.machine.name }

func (j *job) Signal(_ context.Context, sig backend.Signal) error {
	if sig == backend.Kill {
		j.at().signal(syscall.SIGKILL)
	} else {
		j.at().signal(syscall.SIGTERM)
	}
	return nil
}

func (j *job) Remove(ctx context.Context) error {
	return j.Finish(ctx, func() error { return j.Signal(ctx, backend.Kill) })
}
