package pipe

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/object"
)

// The window: a sender waits while so many items, or bytes, are unread. A reader
// reports what it has read whenever it has read so many of tellItems or tellBytes.
const (
	windowItems = 256
	windowBytes = 1 << 20
	tellItems   = windowItems / 4
	tellBytes   = windowBytes / 4
)

// The errors of a Port whose end cannot be used.
var (
	ErrGone  = errors.New("fiber: this end of the pipe was closed, or belongs to another process now")
	ErrEnded = errors.New("fiber: the other end of the pipe was closed, or its process has ended")
)

// lastWord is the last thing that an owner says about an end: leave or closeEnd.
type lastWord = object.Op[of[int], object.None]

// Port is an end of a pipe in the process that owns or claims it. Its methods may
// be called from many goroutines.
type Port struct {
	home    *object.Server
	ref     object.Ref
	unwatch func() // ends its notices

	asked   chan struct{} // closed when the claim is in the socket
	claimed chan struct{} // closed when the claim is answered
	over    chan struct{} // closed when nothing comes any more
	arrived chan struct{} // holds a token when items may have come
	room    chan struct{} // holds a token when there may be room to send one

	mu      sync.Mutex
	gen     uint64   // 0 until the end is claimed
	gone    bool     // the end is not used here any more
	ended   bool     // the other end is gone
	word    lastWord // the last word, once gone
	said    bool     // the last word was said, or cannot be heard
	names   int      // names sent, and not known to have been claimed
	moved   bool     // one of them was claimed
	lapse   *time.Timer
	freed   bool
	carried bool         // the process to which a name was sent is known: see LeaveTo
	busy    int          // messages of this generation that are still to be sent
	items   object.Deque // received, not yet read
	read    int          // items read that the home does not know of
	bytes   int          // their size
	out     size         // sent and not known to be read
}

func newPort(s *object.Server, ref object.Ref) *Port {
	p := &Port{home: s, ref: ref, asked: make(chan struct{}), claimed: make(chan struct{}), over: make(chan struct{}),
		arrived: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s.Hold(ref)
	p.watch()
	return p
}

// transit is how long a port that has left holds its end for an unknown next
// owner, unless the end is claimed before. It is at most transitPart of
// heartbeat_timeout, so that together with object.Grace it stays below that.
// Whatever carries the name longer, such as a queue, holds the end itself.
const (
	transit     = 30 * time.Second
	transitPart = 0.4
)

// free releases the end and its notices, when the port needs neither any more.
// The lock is held.
func (p *Port) free() {
	if p.freed {
		return
	}
	p.freed = true
	if p.lapse != nil {
		p.lapse.Stop()
	}
	p.unwatch()
	ports.Lock()
	delete(ports.m, p)
	ports.Unlock()
	p.home.Release(p.ref)
}

// Claim makes this process the owner of an end whose name, with its generation,
// has come here. It does not block: the port's operations wait for the answer.
func Claim(s *object.Server, ref object.Ref, gen uint64) *Port {
	p := newPort(s, ref)
	go func() {
		defer close(p.asked)
		if _, err := object.Start(context.Background(), s, ref, claim, of[object.None]{Gen: gen}, p.answered); err != nil {
			p.answered(granted{}, err)
		}
	}()
	return p
}

// Known waits until the end's home knows that this process claims the end, or is
// gone. From then on the home notices the death of this process. Known does not
// wait for the old owner. It returns false if ctx ends first.
func (p *Port) Known(ctx context.Context) bool {
	select {
	case <-p.asked:
	case <-ctx.Done():
		return false
	}
	select {
	case <-p.claimed:
		return true
	default:
	}
	_, err := object.Ask(ctx, p.home, p.ref, known, of[object.None]{}, nil) // behind the claim, on its connection
	return err == nil || ctx.Err() == nil
}

// Kept waits until the end's home has received all that was sent before, and
// holds the objects named in it, or until the home is gone.
func (p *Port) Kept() {
	object.Ask(context.Background(), p.home, p.ref, known, of[object.None]{}, nil) // behind it, on its connection
}

// answered handles the answer to the claim.
func (p *Port) answered(g granted, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(p.claimed)
	if err == nil {
		p.gen, p.out = g.Gen, g.Out
		if p.gone {
			go p.conclude()
		}
		return
	}
	if refusal := (*object.Refusal)(nil); errors.As(err, &refusal) {
		p.gone = true
	}
	p.silence()
}

// silence ends a port whose home is gone, or has refused the claim. The lock is
// held.
func (p *Port) silence() {
	p.said = true
	p.end()
	p.free()
}

func (p *Port) end() {
	if !p.ended {
		p.ended = true
		p.finish()
	}
}

// finish closes over, once.
func (p *Port) finish() {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

// Ref names the end.
func (p *Port) Ref() object.Ref { return p.ref }

// Send sends an item to the other end. It blocks while the window is full, and
// returns when the item is in the socket. The error is ErrGone, ErrEnded, the
// ctx's, or a *transport.SizeError.
func (p *Port) Send(ctx context.Context, v object.Value) error {
	p.mu.Lock()
	for waited := false; ; waited = true {
		switch {
		case p.gone:
			p.mu.Unlock()
			return ErrGone
		case p.ended:
			p.mu.Unlock()
			return ErrEnded
		case ctx.Err() != nil:
			p.mu.Unlock()
			return ctx.Err()
		}
		if p.gen > 0 && p.open() {
			p.out.Items++
			p.out.Bytes += v.Size()
			p.busy++
			if waited && p.open() {
				signal(p.room) // for another caller
			}
			break
		}
		p.wait(ctx, p.room)
	}
	message := of[object.Value]{p.gen, v}
	p.mu.Unlock()
	err := object.Tell(ctx, p.home, p.ref, send, message)
	p.mu.Lock()
	if err != nil {
		p.out.Items--
		p.out.Bytes -= v.Size()
		signal(p.room)
	}
	p.done()
	return err
}

func (p *Port) open() bool { return p.out.Items < windowItems && p.out.Bytes < windowBytes }

// Recv waits for an item from the other end. An item that names objects counts as
// read only when Took is called. The error is ErrGone, the ctx's, or io.EOF when
// the other end is gone and all items have been read.
func (p *Port) Recv(ctx context.Context) (object.Value, error) {
	p.mu.Lock()
	for {
		switch {
		case p.gone:
			p.mu.Unlock()
			return object.Value{}, ErrGone
		case p.items.Len() > 0 && ctx.Err() == nil:
			v := p.items.Pop()
			if p.items.Len() > 0 {
				signal(p.arrived) // for another caller
			}
			if len(v.Refs) > 0 {
				p.busy++ // until Took: the last word counts it
				p.mu.Unlock()
				return v, nil
			}
			p.took(v)
			return v, nil
		case ctx.Err() != nil:
			p.mu.Unlock()
			return object.Value{}, ctx.Err()
		case p.ended:
			p.mu.Unlock()
			return object.Value{}, io.EOF
		}
		p.wait(ctx, p.arrived)
	}
}

// Took says that an item that names objects was read, and that this process
// holds what the item names.
func (p *Port) Took(v object.Value) {
	p.mu.Lock()
	p.took(v)
	p.mu.Lock()
	p.done()
}

// took counts an item as read, and tells the home when enough have been read.
// It is called with the lock held and returns without it.
func (p *Port) took(v object.Value) {
	p.read++
	p.bytes += v.Size()
	if p.said || p.read < tellItems && p.bytes < tellBytes {
		p.mu.Unlock()
		return
	}
	message := of[int]{p.gen, p.read}
	p.read, p.bytes = 0, 0
	p.busy++
	p.mu.Unlock()
	object.Post(p.home, p.ref, read, message)
	p.mu.Lock()
	p.done()
}

// wait waits for a signal, the answer to the claim, or the end of the port or of
// ctx. It is called with the lock held and returns with it.
func (p *Port) wait(ctx context.Context, ready chan struct{}) {
	claimed := p.claimed
	if p.gen > 0 {
		claimed = nil
	}
	p.mu.Unlock()
	if claimed == nil {
		p.home.Await(p.ref, func() bool { return len(ready) > 0 })
	}
	select {
	case <-ready:
	case <-claimed:
	case <-p.over:
	case <-ctx.Done():
	}
	p.mu.Lock()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// done counts a message as sent, and says the last word after the last message.
// It is called with the lock held and returns without it.
func (p *Port) done() {
	p.busy--
	last := p.gone && p.busy == 0
	p.mu.Unlock()
	if last {
		p.conclude()
	}
}

// quit ends the use of the end here; word becomes the last word. Later calls do
// nothing.
func (p *Port) quit(word lastWord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	p.gone, p.word = true, word
	p.items = object.Deque{}
	p.finish()
}

// conclude says the last word once no other message is being sent.
func (p *Port) conclude() {
	p.mu.Lock()
	if !p.gone || p.said || p.gen == 0 || p.busy > 0 {
		p.mu.Unlock()
		return
	}
	p.said = true
	message := of[int]{p.gen, p.read}
	p.mu.Unlock()
	object.Post(p.home, p.ref, p.word, message)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.word != leave || p.names <= 0 || p.moved {
		p.free()
	} else if !p.freed && !p.carried {
		p.lapse = time.AfterFunc(p.home.Within(transit, transitPart), p.forget)
	}
}

// forget releases the end, claimed or not.
func (p *Port) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free()
}

// Close ends the pipe from this end.
func (p *Port) Close() {
	p.quit(closeEnd)
	p.conclude()
}

// Leave ends the use of the end here. If its name was sent to another process,
// the end is that process's from now on; otherwise it closes.
func (p *Port) Leave() {
	p.quit(leave)
	p.conclude()
}

// Generation returns the end's generation. It waits for the answer to the claim.
// The error is ErrGone.
func (p *Port) Generation() (uint64, error) {
	<-p.claimed
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.gen == 0 {
		return 0, ErrGone
	}
	return p.gen, nil
}

// LeaveTo is Leave when the process that the end's name was sent to is known. The
// end is held until that process has claimed it. If the process ends without
// having done so, the end closes.
func (p *Port) LeaveTo(ended <-chan struct{}) {
	p.mu.Lock()
	p.carried = true
	p.mu.Unlock()
	p.Leave()
	go func() {
		<-ended
		p.Orphan()
		p.forget()
	}()
}

// Depart tells the home that the end's name is about to be sent to another
// process, and returns the end's generation. It waits for the answer to the
// claim. The error is ErrGone.
func (p *Port) Depart() (gen uint64, err error) {
	<-p.claimed
	p.mu.Lock()
	if p.gone || p.gen == 0 {
		p.mu.Unlock()
		return 0, ErrGone
	}
	p.busy++
	p.names++
	gen = p.gen
	message := of[int]{gen, p.read}
	p.read, p.bytes = 0, 0
	p.mu.Unlock()
	object.Post(p.home, p.ref, depart, message)
	p.mu.Lock()
	p.done()
	return gen, nil
}

// Stay takes back a Depart whose name was not sent.
func (p *Port) Stay() {
	p.mu.Lock()
	p.names--
	p.mu.Unlock()
	p.post(stay)
}

// Orphan closes the end if no process has claimed it since it left here.
func (p *Port) Orphan() { p.post(orphan) }

func (p *Port) post(op object.Op[of[object.None], object.None]) {
	p.mu.Lock()
	gen := p.gen
	p.mu.Unlock()
	object.Post(p.home, p.ref, op, of[object.None]{Gen: gen})
}

var notices = object.Ops(
	when(item, func(p *Port, v object.Value) {
		if !p.gone {
			p.items.Push(v)
			signal(p.arrived)
		}
	}),
	when(room, func(p *Port, read size) {
		p.out.Items -= read.Items
		p.out.Bytes -= read.Bytes
		signal(p.room)
	}),
	when(ended, func(p *Port, _ object.None) { p.end() }),
	when(moved, func(p *Port, _ object.None) {
		if !p.gone {
			p.gone, p.word = true, leave
			p.items = object.Deque{}
			p.finish()
		}
		go p.conclude()
	}),
)

// when makes do the handler of a notice, for a port that has the notice's
// generation and has not said its last word.
func when[Q any](op object.Op[of[Q], object.None], do func(p *Port, what Q)) object.Handler[*Port] {
	return object.On(op, func(p *Port, r object.Asked[object.None], q of[Q]) {
		if q.Gen != p.gen {
			return
		}
		if p.moved = p.moved || r.Op == moved.Number(); !p.said {
			do(p, q.What)
		} else if p.moved {
			p.free()
		}
	})
}

// notice handles a notice of the home. The home's lock on the pipe may be held.
func (p *Port) notice(op byte, args []byte, frames [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == object.NoticeLost { // the holds of this process have ended, too
		p.silence()
		return
	}
	notices.Serve(p, &object.Request{Op: op, Args: args, Value: frames})
}
