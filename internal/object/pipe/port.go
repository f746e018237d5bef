package pipe

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/object"
)

// The window: a sender waits while so many items, or bytes, are not read. A
// reader says what it has read when it is so much.
const (
	windowItems = 256
	windowBytes = 1 << 20
	tellItems   = windowItems / 4
	tellBytes   = windowBytes / 4
)

// What a Port gives when the end cannot be used.
var (
	ErrGone  = errors.New("fiber: this end of the pipe was closed, or is another process's now")
	ErrEnded = errors.New("fiber: the other end of the pipe was closed, or its process has ended")
)

// lastWord is what an owner says last of an end.
type lastWord = object.Op[of[int], object.None]

// Port is an end of a pipe as a process uses it that owns it, or claims it.
type Port struct {
	home    *object.Server
	ref     object.Ref
	unwatch func() // ends its notices

	asked   chan struct{} // closed when the claim is in the socket
	claimed chan struct{} // closed when it is known whose the end is
	over    chan struct{} // closed when nothing comes any more
	arrived chan struct{} // has one in it when items may have come
	room    chan struct{} // and here, when there may be room for one to be sent

	mu      sync.Mutex
	gen     uint64   // 0 until it is claimed
	gone    bool     // it is not used here any more
	ended   bool     // the other end is gone
	word    lastWord // the last word, when there is one to say
	said    bool     // it was said, or nobody hears it
	names   int      // sent, and not known to have been taken
	moved   bool     // one of them was taken
	lapse   *time.Timer
	freed   bool
	carried bool         // the process to which a name was sent is known: see LeaveTo
	busy    int          // messages of this generation that are being sent, or are to be
	items   object.Deque // what has come
	read    int          // items read that the home was not told of
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

// transit is how long a port that has left holds its end for whoever takes it,
// where it is not known who that is, unless it hears that this has happened, and at most that part of
// heartbeat_timeout: together with home.Grace it stays below. What carries the
// name longer, a queue for one, holds the end itself.
const (
	transit     = 30 * time.Second
	transitPart = 0.4
)

// free ends the hold of a port that has nothing more to say, or to hear. The
// lock is held.
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

// Claim makes an end one of this process's whose name, with its generation,
// has come here. It does not wait.
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

// Known waits until the end's home knows that this process claims it, and so
// notices the death of this process, or until the home is gone. It does not wait
// for the old owner. It returns false when ctx ends first.
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

// Kept waits until the end's home has got, and holds what is named in, all that
// was sent before, or is gone.
func (p *Port) Kept() {
	object.Ask(context.Background(), p.home, p.ref, known, of[object.None]{}, nil) // behind it, on its connection
}

// answered takes the answer to the claim.
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

// silence ends a port whose home is gone, or does not know it. The lock is
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

// Send sends an item to the other end, and waits while the window is full. It
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
				signal(p.room) // for somebody else
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

// Recv waits for an item from the other end. One that names objects is read
// only when Took is called. The error is ErrGone, io.EOF when the other end is
// gone and all that was sent was read, or the ctx's.
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
				signal(p.arrived) // for somebody else
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

// Took says that an item that names objects was read, and that what it names is
// held here.
func (p *Port) Took(v object.Value) {
	p.mu.Lock()
	p.took(v)
	p.mu.Lock()
	p.done()
}

// took counts an item as read, and tells the home when it is worth it. It is
// called with the lock held and returns without it.
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

// wait waits for a signal, an end of the port, or of ctx; while the claim is
// not answered, for that. It is called with the lock held and returns with it.
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

// done ends a message that was being sent. It is called with the lock held and
// returns without it.
func (p *Port) done() {
	p.busy--
	last := p.gone && p.busy == 0
	p.mu.Unlock()
	if last {
		p.conclude()
	}
}

// quit ends the use of the end here; word is the last word. It does nothing
// the second time.
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

// conclude says the last word, when nothing else is being said.
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

// forget ends the hold, whether the end was taken or not.
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

// Leave ends the use of the end here. If its name was sent to somebody it is
// theirs from now on, else it is closed.
func (p *Port) Leave() {
	p.quit(leave)
	p.conclude()
}

// Generation is the end's. While the end is being claimed it waits.
func (p *Port) Generation() (uint64, error) {
	<-p.claimed
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.gen == 0 {
		return 0, ErrGone
	}
	return p.gen, nil
}

// LeaveTo is Leave where the end's name was sent to a process: the end is held
// until that one has taken it, and closed when it has ended without.
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

// Depart tells the home that the end's name is about to be sent to somebody,
// and gives its generation. While the end is being claimed it waits.
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

// Stay takes a Depart back, if the end is still this process's.
func (p *Port) Stay() {
	p.mu.Lock()
	p.names--
	p.mu.Unlock()
	p.post(stay)
}

// Orphan closes the end if it was not claimed since it left here.
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

// when has do take a notice of an end that has the generation, and that has not
// said its last word.
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

// notice takes what the home tells. The home's lock on the pipe may be held.
func (p *Port) notice(op byte, args []byte, frames [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == object.NoticeLost { // the holds of this process have ended, too
		p.silence()
		return
	}
	notices.Serve(p, &object.Request{Op: op, Args: args, Value: frames})
}
