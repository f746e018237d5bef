//go:build unix

package waits_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// situation is what happens to a call.
type situation int

const (
	before    situation = iota // its context has ended before
	meanwhile                  // its context ends while it waits
	beside                     // and other goroutines use the same connection all the time
	stopped                    // the peer is stopped, and the context ends
	large                      // so it is, and the call carries more than a connection holds
	killed                     // the peer is killed
	ended                      // the peer ends in good order
	situations
)

func (s situation) String() string {
	return [...]string{"its context has ended before", "its context ends", "its context ends beside others",
		"its peer is stopped", "its peer is stopped and its value is large", "its peer is killed", "its peer ends"}[s]
}

// row is one way to have a function or method wait.
type row struct {
	name string // of the function, or of the type and the method
	how  string // which of several ways this is, "" for the only one
	kind kind
	at   func(*testing.T) *stage
	make func(*testing.T, *stage) trial
	but  map[situation]outcome // where the kind's is not the documented one
	once bool                  // the call cannot be made again when the peer has ended
}

// trial is a call that is about to be made.
type trial struct {
	call func(context.Context) error
	// state is what the call would change; nil for one that changes nothing.
	state func(context.Context) (any, error)
	// waits says whether the call waits; nil where its goroutine shows that. It may
	// be what finds the peer.
	waits func() bool
}

// kind is what a function waits for.
type kind struct {
	alone bool // for its peer's answer, and for nothing else
	takes bool // takes a value with it, of any size
}

var (
	asks      = kind{alone: true}
	carries   = kind{alone: true, takes: true}
	waits     = kind{}
	waitsWith = kind{takes: true}
)

// outcome is what is documented of a call in a situation: what its error is, or
// why there is no such situation.
type outcome struct {
	is    []string
	never string
}

func is(names ...string) outcome { return outcome{is: names} }

func never(why string) outcome { return outcome{never: why} }

func (k kind) outcome(s situation) outcome {
	switch s {
	case meanwhile, beside:
		if k.alone {
			return never("its peer answers at once")
		}
	case large:
		if !k.takes {
			return never("it takes no value along")
		}
	case killed, ended:
		return is("lost")
	}
	return is("context")
}

func (r row) outcome(s situation) outcome {
	if o, ok := r.but[s]; ok {
		return o
	}
	return r.kind.outcome(s)
}

// meanings are what an error can be, in words.
var meanings = map[string]func(error) bool{
	"nil":       func(err error) bool { return err == nil },
	"EOF":       func(err error) bool { return err == io.EOF },
	"context":   func(err error) bool { return errors.Is(err, context.Canceled) },
	"unknown":   func(err error) bool { return errors.Is(err, fiber.ErrUnknownOutcome) },
	"closed":    func(err error) bool { return errors.Is(err, fiber.ErrClosed) },
	"abandoned": func(err error) bool { return errors.Is(err, fiber.ErrAbandoned) },
	"broken":    func(err error) bool { return errors.Is(err, fiber.ErrBrokenBarrier) },
	"lost":      as[*fiber.WorkerLostError],
	"remote":    as[*fiber.RemoteError],
	"exit":      as[*fiber.ExitError],
	"ring":      as[*fiber.RingError],
	"launch":    as[*fiber.LaunchError],
	"encode":    as[*fiber.EncodeError],
	"mismatch":  as[*fiber.MismatchError],
	"signal":    as[*exec.ExitError],
}

func as[E error](err error) bool { return errors.As(err, new(E)) }

// told is an error of another process, and what it is there.
type told struct {
	Is   []string
	Text string
}

func (e *told) Error() string { return e.Text }

// meaning says what an error is.
func meaning(err error) (all []string) {
	if e := (*told)(nil); errors.As(err, &e) {
		return e.Is
	}
	for name, fits := range meanings {
		if fits(err) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// requireOutcome checks what came of a call. Where its context has ended, it may
// be unknown whether it was carried out.
func requireOutcome(t *testing.T, want outcome, err error) {
	t.Helper()
	got := meaning(err)
	if slices.Contains(got, "context") {
		got = slices.DeleteFunc(slices.Clone(got), func(name string) bool { return name == "unknown" })
	}
	require.ElementsMatch(t, want.is, got, "%T: %v", err, err)
}

// stage is what a trial needs: this process and a peer.
type stage struct {
	in   situation
	pid  int                         // the peer's; 0 if only the call finds it
	size int                         // of values that a trial sends
	busy func(context.Context) error // goes over the connection to the peer once

	m    *fiber.Manager
	pool *fiber.Pool
}

// value is one that a trial sends.
func (s *stage) value() []byte { return make([]byte, s.size) }

const (
	small = 8
	big   = 4 << 20
	huge  = 33 << 20 // more than sockets hold, and than the memory for large frames
)

// signal sends one to the peer, and waits for the effect of SIGSTOP.
func (s *stage) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	err := syscall.Kill(s.pid, sig)
	if sig == syscall.SIGCONT && err == syscall.ESRCH {
		return // the end of the context was its end
	}
	require.NoError(t, err)
	if sig != syscall.SIGSTOP {
		return
	}
	t.Cleanup(func() { syscall.Kill(s.pid, syscall.SIGCONT) })
	fibertest.Eventually(t, patience, func() bool { return fibertest.Halted(s.pid) }, "the peer is not stopped")
}

// TestWaits puts each function and method that takes a context into each
// situation. The call returns while the peer is still stopped, or while others
// are still busy, and its error is the documented one.
func TestWaits(t *testing.T) {
	t.Parallel()
	was := runtime.GOMAXPROCS(64) // so that callers read by themselves, however many wait at once
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
	for _, r := range table {
		name := r.name
		if r.how != "" {
			name += ", " + r.how
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for s := range situations {
				want := r.outcome(s)
				if len(want.is) == 0 {
					require.NotEmpty(t, want.never, "%s: why is it left out where %v?", r.name, s)
					continue
				}
				t.Run(s.String(), func(t *testing.T) {
					t.Parallel()
					r.play(t, s, want)
				})
			}
		})
	}
}

// play makes the call in a situation.
func (r row) play(t *testing.T, in situation, want outcome) {
	s := r.at(t)
	s.in, s.size = in, small
	if in == large {
		s.size = huge
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if in == beside && s.busy == nil {
		in = meanwhile // the others are where the call is
	}
	switch in {
	case before:
		tr := r.make(t, s)
		defer runtime.KeepAlive(tr) // and so what it has made
		was := tr.stateIs(t)
		cancel()
		requireOutcome(t, want, tr.begin(ctx).returns(t))
		if !slices.Equal(want.is, []string{"nil"}) {
			require.Equal(t, was, tr.stateIs(t), "it has had an effect")
		}
	case meanwhile:
		tr := r.make(t, s)
		defer runtime.KeepAlive(tr) // and so what it has made
		c := tr.begin(ctx)
		c.waits(t)
		cancel()
		requireOutcome(t, want, c.returns(t))
	case beside:
		for range 10 {
			tr := r.make(t, s)
			defer runtime.KeepAlive(tr)
			round, cancel := context.WithCancel(ctx)
			going := s.others(t)
			call := tr.call
			tr.call = func(ctx context.Context) error {
				for range 50 { // after quick answers, a caller reads the connection itself
					if err := s.busy(ctx); err != nil {
						return err
					}
				}
				close(going.begin)
				return call(ctx)
			}
			c := tr.begin(round)
			going.goOn(t) // c.waits would disturb them: it stops the world
			cancel()
			requireOutcome(t, want, c.returns(t))
			going.goOn(t)
			going.end()
		}
	case stopped, large:
		tr := r.make(t, s)
		defer runtime.KeepAlive(tr) // and so what it has made
		was := tr.stateIs(t)
		known := s.pid != 0
		if known {
			s.signal(t, syscall.SIGSTOP)
		}
		c := tr.begin(ctx)
		c.waits(t)
		if !known {
			s.signal(t, syscall.SIGSTOP)
		}
		cancel()
		err := c.returns(t) // while it is stopped
		s.signal(t, syscall.SIGCONT)
		requireOutcome(t, want, err)
		if !errors.Is(err, fiber.ErrUnknownOutcome) {
			tr.stays(t, was)
		}
	case killed:
		tr := r.make(t, s)
		defer runtime.KeepAlive(tr) // and so what it has made
		if r.kind.alone {
			s.signal(t, syscall.SIGSTOP)
		}
		c := tr.begin(ctx)
		c.waits(t)
		s.signal(t, syscall.SIGKILL)
		requireOutcome(t, want, c.returns(t))
		if !r.once {
			requireOutcome(t, want, tr.begin(ctx).returns(t))
		}
	case ended:
		tr := r.make(t, s)
		defer runtime.KeepAlive(tr) // and so what it has made
		if r.kind.alone {
			s.signal(t, syscall.SIGTERM)
			fibertest.Eventually(t, patience, func() bool { return !fibertest.Running(s.pid) }, "the peer goes on")
		} else {
			c := tr.begin(ctx)
			c.waits(t)
			s.signal(t, syscall.SIGTERM)
			requireOutcome(t, want, c.returns(t))
		}
		if !r.once {
			requireOutcome(t, want, tr.begin(ctx).returns(t))
		}
	}
}

// patience ends what hangs.
const patience = fibertest.Patience

// stateIs is what the call would change.
func (tr trial) stateIs(t *testing.T) any {
	t.Helper()
	if tr.state == nil {
		return nil
	}
	now, err := tr.state(fibertest.Soon(t))
	require.NoError(t, err)
	return now
}

// stays requires that the state is what it was, or becomes so: what is handed
// over too late is given back a moment later.
func (tr trial) stays(t *testing.T, was any) {
	t.Helper()
	var now any
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(time.Millisecond) {
		if now = tr.stateIs(t); assert.ObjectsAreEqual(was, now) {
			return
		}
	}
	require.Equal(t, was, now, "the call has had an effect, and its error does not say that it may")
}

// calling is a call that has begun.
type calling struct {
	id     atomic.Pointer[string] // of its goroutine
	parked func() bool
	done   chan struct{}
	err    error
}

func (tr trial) begin(ctx context.Context) *calling {
	c := &calling{done: make(chan struct{}), parked: tr.waits}
	if tr.waits == nil {
		c.parked = func() bool { id := c.id.Load(); return id != nil && parked(*id) }
	}
	go func() {
		defer close(c.done)
		var header [64]byte
		id := strings.Fields(string(header[:runtime.Stack(header[:], false)]))[1]
		c.id.Store(&id)
		c.err = tr.call(ctx)
	}()
	return c
}

// waits returns when the call waits for something.
func (c *calling) waits(t *testing.T) {
	t.Helper()
	fibertest.Eventually(t, patience, func() bool {
		select {
		case <-c.done:
			return true
		default:
			return c.parked()
		}
	}, "it never waits")
	select {
	case <-c.done:
		require.FailNow(t, "the call does not wait", "it returns %v", c.err)
	default:
	}
}

// returns is the call's error.
func (c *calling) returns(t *testing.T) error {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		require.FailNow(t, "the call hangs")
	}
	return c.err
}

var waiting = regexp.MustCompile(`^goroutine (\d+) \[(?:select|chan receive|chan send|IO wait|syscall|sync\.Cond\.Wait|sync\.WaitGroup\.Wait)[\],]`)

var stacks struct {
	sync.Mutex
	buf [1 << 22]byte
}

// parked says whether a goroutine waits for others.
func parked(id string) bool {
	stacks.Lock()
	defer stacks.Unlock()
	all := string(stacks.buf[:runtime.Stack(stacks.buf[:], true)])
	for stack := range strings.SplitSeq(all, "\n\n") {
		if found := waiting.FindStringSubmatch(stack); found != nil && found[1] == id {
			return true
		}
	}
	return false
}

// others is a goroutine that uses the connection to the peer all the time.
type others struct {
	begin  chan struct{}
	rounds atomic.Int64
	failed chan error
	end    func()
}

// others uses the connection from when begin is closed until end is called.
func (s *stage) others(t *testing.T) *others {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var going sync.WaitGroup
	o := &others{begin: make(chan struct{}), failed: make(chan error, 1), end: func() { cancel(); going.Wait() }}
	t.Cleanup(o.end)
	going.Go(func() {
		select {
		case <-o.begin:
		case <-ctx.Done():
		}
		for ctx.Err() == nil {
			if err := s.busy(ctx); err != nil && ctx.Err() == nil {
				o.failed <- err
				return
			}
			o.rounds.Add(1)
		}
	})
	return o
}

// goOn returns when the others have gone on.
func (o *others) goOn(t *testing.T) {
	t.Helper()
	was := o.rounds.Load()
	fibertest.Eventually(t, patience, func() bool {
		select {
		case err := <-o.failed:
			require.NoError(t, err, "of the others")
		default:
		}
		return o.rounds.Load() > was+10
	}, "the others do not go on")
}
