package tree

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// bootstrapKey is the environment variable of wire.Bootstrap.
const bootstrapKey = "FIBER_BOOTSTRAP"

// The causes of a start's ctx when the start is given up.
var (
	errAvoided = errors.New("its machine is avoided by now")
	errLate    = errors.New("start_timeout")
)

// errNoHello reports a process that has not said hello.
var errNoHello = errors.New("it has not reported")

// Spec describes a process to start.
type Spec struct {
	Name      string
	Resources meta.Resources
	Devices   []string    // GPUs of AcquireGPUs; nil: Start acquires what it needs
	Assign    wire.Assign // Role, Func, Concurrency; the rest is filled in
	Value     [][]byte    // the encoded argument behind it
	Keep      any         // stays reachable until the process has ended
	// Pending, unless nil, is called with what the start waits for, in the
	// backend's words, and with "" when it waits no longer.
	Pending func(reason string)
	// Handle receives the child's messages that are not this package's own, one
	// after another. It must not block.
	Handle func(kind wire.Kind, frames [][]byte)
	// Handled is called after the last of those messages that came together, and now and then without one.
	Handled func()
	// Idle says whether no answer of the child's is due. Only Child.Wait needs it.
	Idle func() bool
}

// Start starts a process and returns when it has been sent its work. It blocks
// until then, until ctx ends, or for start_timeout, which does not count the wait
// for GPUs or for other starts. The error is a *backend.LaunchError, a
// *MismatchError, ErrShutdown or the ctx's. After an error nothing is left
// behind, except that a removal which takes longer than a second goes on in the
// background.
func (n *Node) Start(ctx context.Context, spec Spec) (*Child, error) {
	for {
		c, err := n.start(ctx, spec)
		if !errors.Is(err, errAvoided) {
			return c, err
		}
	}
}

// start is a process that comes up: the child, and what only its start needs.
type start struct {
	*Child
	giveUp  context.CancelCauseFunc
	way     *dialback
	pending atomic.Value // string: what the job waits for
	stays   []string     // the variables that the process did not get
}

// start is one try. After errAvoided, Start tries again.
func (n *Node) start(ctx context.Context, spec Spec) (_ *Child, err error) {
	n.sweepOnce()
	began := time.Now()
	serial, left, err := n.enter("the start of " + spec.Name)
	if err != nil {
		return nil, err
	}
	defer left()
	ctx, giveUp := n.whileStarting(ctx)
	defer giveUp(nil)
	s := &start{Child: newChild(n, spec, n.placeOf(serial)), giveUp: giveUp}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	switch {
	case spec.Devices != nil:
		s.lent = spec.Devices
	case spec.Resources.GPU > 0:
		devices, release, err := n.acquireGPUs(ctx, spec.Resources.GPU)
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		s.lent, s.release = devices, release
	case n.Parent != nil && len(n.Parent.Assign.Devices) > 0:
		s.lent = []string{} // what was lent to this process is not the child's
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return nil, s.failed(ctx, ctx.Err())
	}
	// The wait for a turn, or for a GPU, does not count.
	defer time.AfterFunc(n.Config.StartTimeout, func() { giveUp(errLate) }).Stop()
	if err := s.launch(ctx, n.Run+"-"+strconv.Itoa(serial)+"-"+rand.Text()); err != nil {
		return nil, s.failed(ctx, err)
	}
	if err := s.introduce(ctx); err != nil {
		s.way.close()
		return nil, s.explain(ctx, err)
	}
	n.startedOn(s.job.Host())
	n.add(s.Child)
	n.Log.Debug("fiber: started", "process", spec.Name, "id", s.job.ID())
	n.Events.IfOn(func() { s.observe(true) })
	if n.Events.On() {
		n.Events.Tell(event.ProcessStarted{Name: spec.Name, Role: string(spec.Assign.Role), Func: spec.Assign.Func, ID: s.job.ID(), Host: s.job.Host(),
			Memory: int64(spec.Resources.Memory) << 20, GPUs: s.lent, Took: time.Since(began)})
	}
	s.watch()
	if n.starts.Err() != nil { // since its introduction
		s.Terminate()
	}
	return s.Child, nil
}

// launch has the backend run the process.
func (s *start) launch(ctx context.Context, id string) (err error) {
	n := s.node
	if s.way, err = n.newDialback(ctx, id); err != nil {
		return err
	}
	defer s.way.launched()
	s.onEngine = s.way.endpoint != ""
	bootstrap := wire.Bootstrap{Process: id, Name: s.spec.Name, Build: Build(),
		MaxMessage: int64(n.Config.MaxMessage), Heartbeat: n.Config.HeartbeatInterval, Restore: runtimeSettings()}
	s.way.bootstrap(n, &bootstrap)
	boot, _ := json.Marshal(bootstrap) // never fails
	env := os.Environ()
	if s.onEngine {
		env, s.stays = config.Portable(env, append(slices.Clone(n.Config.Env), config.Own))
		n.told.Do(func() {
			if len(s.stays) > 0 {
				n.Log.Debug("fiber: variables that stay here; the setting env names those that go along", "names", strings.Join(s.stays, " "))
			}
		})
	}
	if bootstrap.Credentials != nil {
		env = append(env, wire.CredentialsKey+"="+base64.StdEncoding.EncodeToString(bootstrap.Credentials))
	}
	s.job, err = n.launch(ctx, backend.JobSpec{Name: s.spec.Name, Parent: n.Name,
		Env: env, Public: []string{bootstrapKey + "=" + string(boot)},
		Resources: s.spec.Resources, Devices: s.lent, Avoid: n.Avoided(), Socket: s.way.socket})
	if err != nil {
		s.way.close()
		return err
	}
	go s.wait()
	return nil
}

// introduce shakes hands with the new process and sends it its work.
func (s *start) introduce(ctx context.Context) (err error) {
	n := s.node
	within, cancel := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { s.heed(within) })
	defer hearing.Wait()                         // after what follows: the process is at work, whatever becomes of ctx meanwhile
	defer cancel()                               // which ends heed
	leave := context.AfterFunc(ctx, s.way.close) // which may close conn, too
	defer leave()
	conn, hello, err := s.way.meet(ctx, s.ended)
	if err != nil {
		return err
	}
	s.conn, s.pid = conn, hello.PID
	// Send finishes a message that has begun to leave, even after the end of ctx.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if goes, stays := leave(), stop(); !(goes && stays) && err == nil { // it is being closed
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
		}
	}()
	if err := n.fits(hello); err != nil {
		conn.Send(ctx, wire.MustPack(wire.KindRefuse, wire.Refuse{Reason: err.Error()})...)
		return err
	}
	assign := s.spec.Assign
	assign.Name, assign.Run, assign.Config = s.spec.Name, n.Run, n.Config
	assign.Credentials, _ = n.Credentials.MarshalBinary() // never fails
	assign.ParentName, assign.ParentPID, assign.Host = n.Name, self.Of().PID, s.job.Host()
	assign.Devices, assign.Place, assign.Places, assign.Avoids = s.lent, s.place, n.places, n.avoids
	assign.Logs = n.Config.Logger != nil || n.Parent != nil && n.Parent.Assign.Logs
	if s.onEngine {
		assign.Backend = n.Backend.Name()
	}
	return conn.Send(ctx, wire.MustPack(wire.KindAssign, assign, s.spec.Value...)...)
}

// heed follows the job while it comes up, and says what it waits for.
func (s *start) heed(ctx context.Context) {
	tell := s.spec.Pending
	if tell == nil {
		tell = func(string) {}
	}
	defer func() {
		tell("")
		if was, _ := s.pending.Load().(string); was != "" {
			s.node.Events.Tell(event.Waiting{Name: s.spec.Name})
		}
	}()
	err := s.job.follow(ctx, func(p progress) {
		if was, _ := s.pending.Swap(p.Reason).(string); was != p.Reason {
			s.node.Events.Tell(event.Waiting{Name: s.spec.Name, Reason: p.Reason})
		}
		tell(p.Reason)
		if p.Reason != "" && s.node.warned.add(p.Reason) {
			s.node.Log.Warn("fiber: a process waits to be started", "process", s.spec.Name, "id", s.job.ID(), "reason", p.Reason)
		}
	})
	if err != nil {
		s.giveUp(err)
	}
}

// explain says why a process did not come up, and removes its job. The machine is to blame if it could not start the job
// for now, or if the process did not come up in time, could not reach this one, or did not end.
func (s *start) explain(ctx context.Context, err error) error {
	blame := context.Cause(ctx) == errLate
	if mismatch := (*MismatchError)(nil); ctx.Err() == nil && !errors.As(err, &mismatch) {
		select {
		case <-s.ended: // it may have left a reason
			err, blame = s.lastWords()
		case <-time.After(sureAfter):
			blame = true
		}
	}
	err = s.failed(ctx, err) // before the removal, during which ctx may end
	if blame {
		s.node.strike(s.job.Host())
	}
	s.discard()
	return err
}

// discardTime is how long a start that has failed waits for the removal of its job.
const discardTime = time.Second

// discard removes the job of a process that did not come up, and gives back what was
// lent to the process. With a dead machine, or an engine that does not answer, that
// takes long: the start goes on after discardTime, and only the end of this process
// waits for the rest.
func (s *start) discard() {
	release, removed := s.release, make(chan struct{})
	s.release = func() {}
	n := s.node
	done := n.note("the removal of " + s.spec.Name)
	n.starting.Go(func() {
		defer close(removed)
		defer done()
		s.job.remove(s.grace())
		release()
	})
	select {
	case <-removed:
	case <-time.After(discardTime):
	}
}

// lastWords returns why the process ended before it was up, and whether its machine
// is to blame.
func (s *start) lastWords() (err error, blame bool) {
	if launch := (*backend.LaunchError)(nil); errors.As(s.failure, &launch) {
		return launch, !launch.Permanent
	}
	if s.failure != nil {
		return s.failure, false
	}
	lines := s.job.lastLines()
	launch := EndedEarly(s.status, lines)
	for _, name := range s.stays {
		if len(name) > 3 && regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(strings.Join(lines, "\n")) {
			launch.Reason += fmt.Sprintf("; %s is set here: FIBER_ENV=%[1]s takes it along", name)
		}
	}
	launch.Permanent = s.onEngine && s.status.Code == unreachableCode
	return launch, launch.Permanent
}

// EndedEarly makes the error of a process that has ended before it was ready.
// Its last word is most often the reason.
func EndedEarly(how backend.ExitStatus, stderr []string) *backend.LaunchError {
	reason := "it ended before it was ready: " + how.String()
	if n := len(stderr); n > 0 {
		reason += ": " + strings.TrimSpace(strings.TrimPrefix(stderr[n-1], "fiber: "))
	}
	return &backend.LaunchError{Reason: reason, Stderr: stderr}
}

// failed returns the error of a start. The end of its ctx counts more than what came of it.
func (s *start) failed(ctx context.Context, err error) error {
	launch := &backend.LaunchError{Err: err}
	mismatch := (*MismatchError)(nil)
	switch cause := context.Cause(ctx); {
	case cause == errLate:
		launch = &backend.LaunchError{Reason: fmt.Sprintf("not up after %v (start_timeout)", s.node.Config.StartTimeout)}
		if waits, _ := s.pending.Load().(string); waits != "" {
			launch.Reason += ": " + waits
		} else if errors.Is(err, errNoHello) {
			launch.Reason += ": it has not reported to " + s.way.endpoint + ", where this process listens; if that cannot be reached from there, set FIBER_HOST to an address that can"
		}
	case cause == errAvoided, errors.Is(cause, ErrShutdown):
		return cause
	case cause != nil:
		return ctx.Err()
	case errors.Is(err, errAvoided), errors.As(err, &mismatch):
		return err
	case errors.As(err, &launch) && launch.Job != "":
		return launch
	}
	// The backend's Network, the root and the GPUs know no job.
	named := *launch
	named.Backend, named.Job = s.node.Backend.Name(), s.spec.Name
	return &named
}
