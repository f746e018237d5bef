package pipe

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/transport"
)

// window is how much may be unread before a sender waits: about so many bytes, or
// windowItems items. A reader reports what it has read whenever that is a quarter.
const (
	window      = 1 << 20
	windowItems = 256
)

// weight is how much of the window an item takes.
func weight(v object.Value) int { return max(v.Size(), window/windowItems) }

// The errors of a Port whose end cannot be used.
var (
	ErrGone  = errors.New("fiber: this end of the pipe was closed, or belongs to another process now")
	ErrEnded = errors.New("fiber: the other end of the pipe was closed, or its process has ended")
)

// state is where a port is in its life. It only moves down this list:
//
//	pending, owned → leaving      Close, Leave, LeaveTo, or a moved notice
//	pending → owned               the claim is granted
//	pending, leaving → silent     the claim is refused
//	leaving → silent              the last word is posted, or the home is gone
//	pending, owned → orphaned     the home is gone
//	orphaned → silent             Close, Leave, LeaveTo, or a moved notice
type state int

const (
	pending state = iota // operations wait until the claim is granted
	owned
	leaving  // not used here any more; the last word waits until it may be said
	orphaned // nobody would hear a word; what was received can be read
	silent   // not used here any more, and all is said
)

// Port is an end of a pipe in the process that owns or claims it. Its methods may
// be called from many goroutines.
type Port struct {
	home *object.Server
	ref  object.Ref
	free func() // releases the end and its notices, once

	mu      sync.Mutex
	changes lock.Changes
	state   state
	gen     uint64                          // 0 until the claim is granted
	known   bool                            // the home knows of the claim, or is gone
	ended   bool                            // the other end is gone
	departs bool                            // the home is to be told that the end's name is about to be sent
	named   bool                            // it was told, and from now on hears of each item that is read
	last    object.Op[of[int], object.None] // the last word: leave or closeEnd
	carried bool                            // the end is held after the last word: see LeaveTo
	busy    int                             // what of this generation has to come before the last word
	items   []object.Value                  // received, not yet read
	read    int                             // items read that the home does not know of
	weight  int                             // their weight
	out     int                             // the weight of what was sent and is not known to be read
}

// newPort makes the port of an end, whose generation is 0 if it is to be claimed.
func newPort(s *object.Server, ref object.Ref, gen uint64) *Port {
	p := &Port{home: s, ref: ref, gen: gen, known: gen > 0, last: leave}
	if gen > 0 {
		p.state = owned
	}
	s.Hold(ref)
	p.mu.Lock()
	defer p.mu.Unlock()
	unwatch := s.Watch(ref, p.notice)
	p.free = sync.OnceFunc(func() {
		unwatch()
		s.Release(ref)
	})
	return p
}

// Claim makes this process the owner of an end whose name, with its generation,
// has come here. It does not block: the port's operations wait for the answer.
func Claim(s *object.Server, ref object.Ref, gen uint64) *Port {
	p := newPort(s, ref, 0)
	go func() {
		if _, err := object.Start(context.Background(), s, ref, claim, of[object.None]{Gen: gen}, p.answered); err != nil {
			p.answered(granted{}, err)
		}
	}()
	return p
}

// answered handles the answer to the claim.
func (p *Port) answered(g granted, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = true
	p.changes.Tell()
	if err != nil {
		p.silence()
		if errors.As(err, new(*object.Refusal)) {
			p.state = silent
		}
		return
	}
	p.gen, p.out = g.Gen, g.Out
	switch p.state {
	case pending:
		p.state = owned
	case leaving:
		go p.conclude()
	default: // the claim went over a later connection than the one whose end was noticed
		go object.Post(p.home, p.ref, leave, of[int]{Gen: g.Gen})
	}
}

// gone says whether the end is not used here any more. The lock is held.
func (p *Port) gone() bool { return p.state == leaving || p.state == silent }

// silence ends a port whose home is gone, or has refused the claim. The lock is
// held.
func (p *Port) silence() {
	if p.ended = true; p.gone() {
		p.state = silent
	} else {
		p.state = orphaned
	}
	p.changes.Tell()
	p.free()
}

// await waits until ready returns true, and otherwise returns ErrGone, ErrEnded,
// or the ctx's error. It is called with the lock held and returns with it.
func (p *Port) await(ctx context.Context, ready func() bool) error {
	for {
		switch {
		case p.gone():
			return ErrGone
		case ctx.Err() != nil:
			return ctx.Err()
		case ready():
			return nil
		case p.ended:
			return ErrEnded
		}
		p.wait(ctx)
	}
}

// wait waits for a change, or the end of ctx. It is called with the lock held and
// returns with it.
func (p *Port) wait(ctx context.Context) {
	changed := p.changes.Next()
	p.mu.Unlock()
	p.home.Wait(ctx, p.ref, changed)
	p.mu.Lock()
}

// unlock unlocks the port. Before, it tells the home what is due: that the end's
// name is about to be sent, that items were read, or the last word.
func (p *Port) unlock() {
	for p.gen > 0 && p.state <= leaving {
		op := read
		switch {
		case p.departs:
			op, p.departs, p.named = depart, false, true
		case p.state == leaving && p.busy == 0:
			op, p.state = p.last, silent
		case p.weight < window/4 && !(p.named && p.read > 0):
			p.mu.Unlock()
			return
		}
		message := of[int]{Gen: p.gen, What: p.read}
		p.read, p.weight = 0, 0
		p.busy++
		p.mu.Unlock()
		object.Post(p.home, p.ref, op, message)
		p.mu.Lock()
		p.busy--
	}
	if p.state > leaving && p.busy == 0 && !p.carried { // nor is the last word still to be posted
		p.free()
	}
	p.mu.Unlock()
}

// conclude says the last word if that is due.
func (p *Port) conclude() {
	p.mu.Lock()
	p.unlock()
}

// Known waits until the end's home knows that this process claims the end, or is
// gone. From then on the home notices the death of this process. Known does not
// wait for the old owner. It returns false if ctx ends first.
func (p *Port) Known(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.known && ctx.Err() == nil {
		p.wait(ctx)
	}
	return p.known
}

// Ref names the end.
func (p *Port) Ref() object.Ref { return p.ref }

// Send sends an item to the other end. It blocks while the window is full, and
// returns when the item is in the socket; an item that names objects is then at
// the end's home. The error is ErrGone, ErrEnded, the ctx's, or a
// *transport.SizeError. With the ctx's error the item was not sent, unless it names
// objects and the home has not answered within SettleTime.
func (p *Port) Send(ctx context.Context, v object.Value) error {
	p.mu.Lock()
	defer p.unlock()
	if err := p.await(ctx, func() bool { return !p.ended && p.gen > 0 && p.out < window }); err != nil {
		return err
	}
	p.out += weight(v)
	p.busy++
	message := of[object.Value]{Gen: p.gen, What: v}
	p.mu.Unlock()
	taken, err := p.deliver(ctx, message)
	p.mu.Lock()
	p.busy--
	if !taken {
		p.out -= weight(v)
		p.changes.Tell()
	}
	return err
}

// deliver sends an item to the end's home. taken is true, even with an error, if
// the home has the item or may have it. Then the home gives the room back.
func (p *Port) deliver(ctx context.Context, message of[object.Value]) (taken bool, err error) {
	if len(message.What.Refs()) == 0 {
		err = object.Tell(ctx, p.home, p.ref, send, message)
	} else if _, err = object.Ask(ctx, p.home, p.ref, send, message, nil); errors.As(err, new(*object.Refusal)) {
		err = ErrGone
	}
	return err == nil || errors.Is(err, transport.ErrUnknownOutcome), err
}

// Recv waits for an item from the other end. An item that names objects counts as
// read only when Took is called. The error is ErrGone, the ctx's, or io.EOF when
// the other end is gone and all items have been read.
func (p *Port) Recv(ctx context.Context) (object.Value, error) {
	v, _, err := p.receive(ctx, func() bool { return len(p.items) > 0 })
	return v, err
}

// TryRecv is Recv that does not wait for an item, but at most for the answer to the
// claim. It reports whether there was an item.
func (p *Port) TryRecv(ctx context.Context) (object.Value, bool, error) {
	return p.receive(ctx, func() bool { return len(p.items) > 0 || p.gen > 0 && !p.ended })
}

// receive returns the next item, if there is one when ready returns true.
func (p *Port) receive(ctx context.Context, ready func() bool) (v object.Value, ok bool, err error) {
	p.mu.Lock()
	defer p.unlock()
	switch err := p.await(ctx, ready); {
	case err == ErrEnded:
		return v, false, io.EOF
	case err != nil || len(p.items) == 0:
		return v, false, err
	}
	v = object.Shift(&p.items, 1)[0]
	if len(v.Refs()) > 0 {
		p.busy++ // until Took: the last word counts it
	} else {
		p.took(v)
	}
	return v, true, nil
}

// Took says that an item that names objects was read, and that this process
// holds what the item names.
func (p *Port) Took(v object.Value) {
	p.mu.Lock()
	defer p.unlock()
	p.busy--
	p.took(v)
}

// took counts an item as read. The lock is held.
func (p *Port) took(v object.Value) {
	p.read++
	p.weight += weight(v)
}

// Claimed waits for the answer to the claim. The error is ErrGone, ErrEnded if the
// home is gone, or the ctx's.
func (p *Port) Claimed(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.await(ctx, func() bool { return p.gen > 0 })
}

// Generation returns the end's generation, 0 before the answer to the claim. The
// error is ErrGone, or ErrEnded if the home is gone.
func (p *Port) Generation() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gone():
		return 0, ErrGone
	case p.gen == 0 && p.ended:
		return 0, ErrEnded
	}
	return p.gen, nil
}

// Depart tells the home that the end's name, which has been encoded, is about to be
// sent to another process. The error is ErrGone.
func (p *Port) Depart() error {
	p.mu.Lock()
	defer p.unlock()
	if p.gone() {
		return ErrGone
	}
	p.departs = true
	return nil
}

// Close ends the pipe from this end.
func (p *Port) Close() { p.quit(closeEnd, false) }

// Leave ends the use of the end here. If its name was sent to another process,
// the end is that process's from now on; otherwise it closes.
func (p *Port) Leave() { p.quit(leave, false) }

// LeaveTo is Leave when the process that the end's name was sent to is known. The
// end is held until that process has claimed it. If the process ends without
// having done so, the end closes.
func (p *Port) LeaveTo(ended <-chan struct{}) {
	p.quit(leave, true)
	go func() {
		<-ended
		object.Post(p.home, p.ref, closeEnd, of[int]{Gen: p.gen}) // refused if the end was claimed
		p.free()
	}()
}

// quit ends the use of the end here. Later calls do nothing.
func (p *Port) quit(last object.Op[of[int], object.None], carried bool) {
	p.mu.Lock()
	defer p.unlock()
	if !p.gone() {
		p.last, p.carried = last, carried
		p.retire()
	}
}

// retire ends the use of the end here. The lock is held.
func (p *Port) retire() {
	switch p.state {
	case pending, owned:
		p.state = leaving
	case orphaned:
		p.state = silent
	}
	p.items = nil
	p.changes.Tell()
}

var notices = object.Ops(
	object.On(claimed, func(p *Port, _ object.Asked[object.None], _ of[object.None]) { p.known = p.known || p.gen == 0 }),
	when(item, func(p *Port, v object.Value) {
		if !p.gone() {
			p.items = append(p.items, v)
		}
	}),
	when(room, func(p *Port, read int) { p.out -= read }),
	when(ended, func(p *Port, _ object.None) { p.ended = true }),
	when(moved, func(p *Port, _ object.None) {
		p.carried = false
		p.retire()
		go p.conclude()
	}),
)

// when makes do the handler of a notice, for a port that has the notice's
// generation.
func when[Q any](op object.Op[of[Q], object.None], do func(p *Port, what Q)) object.Handler[*Port] {
	return object.On(op, func(p *Port, _ object.Asked[object.None], q of[Q]) {
		if q.Gen == p.gen {
			do(p, q.What)
		}
	})
}

// notice handles a notice of the home. The home's lock on the pipe may be held.
func (p *Port) notice(r *object.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Op == object.NoticeLost { // the holds of this process have ended, too
		p.silence()
		return
	}
	notices.Serve(p, r)
	p.changes.Tell()
}
