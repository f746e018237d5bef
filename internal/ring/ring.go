// Package ring runs the ranks of a ring and connects them to each other.
//
// In the parent, Run starts the processes and makes the failure of one end the
// others. In each of them, a Node holds the connections to the two neighbours,
// and runs collectives over them by the ring algorithm.
package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// Spec describes a ring to run.
type Spec struct {
	Name      string
	Size      int
	Func      string // the registered ring function
	Resources meta.Resources
	Value     [][]byte // the function's encoded argument
	Keep      any      // stays reachable until the ring has ended

	Lost    func(*tree.Child) error // makes the error of a rank that ended without saying why
	Flatten func(error) *wire.Error // makes an error ready to travel
}

// Failure is the rank that failed first, and its error: a *wire.Error if the rank
// reported it itself.
type Failure struct {
	Rank int
	Err  error
}

func (f *Failure) Error() string { return fmt.Sprintf("rank %d: %v", f.Rank, f.Err) }

// How a ring comes up:
//
//	parent          rank r                            rank r+1
//	  │── assign ────►│ listens, reserves a port
//	  │◄── member ────│ where it is found
//	  │── members ───►│ when all are there
//	  │               │── meet, twice ─────────────────► one connection for collectives, one for messages
//	  │               │ init, if there is one
//	  │               │◄═══ barrier, of all ranks ═══► no rank runs before all have initialised
//	  │               │ run
//	  │◄── done ──────│ says bye to both neighbours, and ends when both have said bye
//
// A rank that loses a neighbour waits for the parent's word before it names that
// one itself: the error names the rank that failed first, and not those that noticed.

// run is a ring as its parent sees it.
type run struct {
	spec Spec
	node *tree.Node
	life context.Context // of the ring; its cause is the first *Failure
	end  context.CancelCauseFunc

	mu       sync.Mutex
	children []*tree.Child // by rank, nil before they are up
	members  []*wire.Member
	met      bool // the members have been sent to all ranks
}

// Run runs a ring and returns when all its ranks have ended. It returns nil if
// all ranks returned nil, ctx's error if ctx ended, and a *Failure otherwise.
func Run(ctx context.Context, node *tree.Node, spec Spec) error {
	// All at once: two rings with half of their devices each would never begin.
	var devices []string
	gpus := spec.Resources.GPU
	if gpus > 0 {
		its, release, err := node.AcquireGPUs(ctx, fmt.Sprintf("%s (%d ranks)", spec.Name, spec.Size), gpus*spec.Size)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return &Failure{0, err}
		}
		defer release()
		devices = its
	}
	r := &run{spec: spec, node: node, children: make([]*tree.Child, spec.Size), members: make([]*wire.Member, spec.Size)}
	r.life, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	var ranks sync.WaitGroup
	for rank := range spec.Size {
		var its []string
		if len(devices) > 0 { // else the engine manages them
			its = devices[rank*gpus:][:gpus]
		}
		ranks.Go(func() { r.rank(rank, its) })
	}
	ranks.Wait()
	if failed, ok := context.Cause(r.life).(*Failure); ok {
		return failed
	}
	return ctx.Err()
}

// rank starts a rank and waits for its end. When the ring fails, the rank is told
// why, and killed if it goes on for too long.
func (r *run) rank(rank int, devices []string) {
	child, err := r.node.Start(r.life, tree.Spec{Name: fmt.Sprintf("%s/rank-%d", r.spec.Name, rank), Resources: r.spec.Resources, Devices: devices,
		Assign: wire.Assign{Role: wire.RoleRing, Func: r.spec.Func, Rank: rank, Size: r.spec.Size},
		Value:  r.spec.Value, Keep: r.spec.Keep,
		Handle: func(kind wire.Kind, frames [][]byte) { r.handle(rank, kind, frames) }})
	if err != nil {
		r.fail(rank, err)
		return
	}
	r.mu.Lock()
	r.children[rank] = child
	r.introduce()
	r.mu.Unlock()
	select {
	case <-child.Done():
	case <-r.life.Done():
		child.Post(r.verdict()...)
		select {
		case <-child.Done():
		case <-time.After(r.node.Config.CancelGrace):
			child.Kill("its ring had failed, and it went on for longer than cancel_grace")
			<-child.Done()
		}
	}
	if exit := child.Exit(); !exit.Returned || exit.Code != 0 || exit.Signal != 0 {
		r.fail(rank, r.spec.Lost(child))
	}
}

// fail ends the ring. Only the first failure counts; others follow from it.
func (r *run) fail(rank int, err error) { r.end(&Failure{rank, err}) }

// verdict tells a rank that the ring has failed, and why.
func (r *run) verdict() [][]byte {
	b := wire.Broken{Rank: -1}
	err := r.life.Err()
	if failed, ok := context.Cause(r.life).(*Failure); ok {
		b.Rank, err = failed.Rank, failed.Err
	}
	var reported bool
	if b.Err, reported = err.(*wire.Error); !reported {
		b.Err = r.spec.Flatten(err)
	}
	return wire.MustPack(wire.KindBroken, b)
}

// handle handles a rank's message.
func (r *run) handle(rank int, kind wire.Kind, frames [][]byte) {
	switch kind {
	case wire.KindMember:
		var m wire.Member
		if err := wire.Unpack(frames, &m); err != nil {
			r.fail(rank, err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		m.Rank = rank
		r.members[rank] = &m
		r.introduce()
	case wire.KindBroken:
		var b wire.Broken
		if err := wire.Unpack(frames, &b); err != nil || b.Err == nil {
			r.fail(rank, errors.Join(err, wire.ErrMalformed))
			return
		}
		r.fail(rank, b.Err)
	case wire.KindDone:
		var d wire.Done
		if err := wire.Unpack(frames, &d); err == nil && d.Err != nil {
			r.fail(rank, d.Err)
		}
	default:
		r.fail(rank, fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind))
	}
}

// introduce sends the members to all ranks once all are known. The lock is held.
func (r *run) introduce() {
	if r.met || slices.Contains(r.members, nil) || slices.Contains(r.children, nil) {
		return
	}
	r.met = true
	all := make([]wire.Member, len(r.members))
	for i, m := range r.members {
		all[i] = *m
		all[i].Name, all[i].Host, all[i].PID = r.children[i].Name(), r.children[i].Job().Host(), r.children[i].PID()
	}
	frames := wire.MustPack(wire.KindMembers, wire.Members{All: all})
	for _, c := range r.children {
		c.Post(frames...) // rank notices a child that has gone
	}
}
