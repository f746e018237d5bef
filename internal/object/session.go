package object

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Session is a process that uses this home's objects; this process itself is one.
type Session struct {
	Name string
	PID  int

	home *Server
	conn *transport.Conn   // nil for this process itself
	held map[uint64]*entry // under home.mu

	// Of the goroutine that reads.
	visited bool // it has said who it is
	goodbye bool // it has said that it ends

	mu       sync.Mutex
	lastID   uint64              // of this process's own requests
	requests map[uint64]*Request // not answered yet
	untaken  map[uint64][]func() // answered, and not taken: what is to be done then
}

// Local says whether the peer is this process itself.
func (p *Session) Local() bool { return p.conn == nil }

// Request is what a process asks of an object.
type Request struct {
	Peer  *Session
	Op    byte
	Args  []byte
	Value [][]byte

	id     uint64 // 0: no answer is wanted
	object Object
	local  *pending // of this process's own requests
	here   func()   // see Run
	taken  []func() // see Holding
}

// Refusal is an answer that is none: a code and more words.
type Refusal struct {
	Code byte
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// The codes of refusals; those from OwnCodes are an object's own.
const (
	fine     = iota
	Gone     // there is no such object
	GivenUp  // as asked
	Unknown  // the object has no such operation, or not with such arguments
	TooLarge // the answer, for a message
	Closed   // the home, by somebody
	OwnCodes = 16
)

// Reply answers. The frames must not be changed any more.
func (r *Request) Reply(args []byte, value [][]byte) { r.answer(fine, args, value) }

// Fail answers that it could not be done.
func (r *Request) Fail(code byte, text string) { r.answer(code, []byte(text), nil) }

// Malformed answers a request that no Fiber sends.
func (r *Request) Malformed() {
	r.Fail(Unknown, fmt.Sprintf("fiber: a malformed request (operation %d); are both ends the same version?", r.Op))
}

// Run has f called, which may block, and answers. When it is brief, and
// nothing else that the process has asked for is open, that happens when Serve has
// returned, on the goroutine that has called it; otherwise on one of its own.
func (r *Request) Run(brief bool, f func()) {
	if brief && r.Peer.conn != nil && r.Peer.asksOnly(r) {
		r.here = f
	} else {
		go f()
	}
}

// asksOnly says whether nothing but r is open.
func (p *Session) asksOnly(r *Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests) == 1 && p.requests[r.id] == r
}

// Wanted says whether the request has no answer yet.
func (r *Request) Wanted() bool {
	if r.id == 0 {
		return false
	}
	r.Peer.mu.Lock()
	defer r.Peer.mu.Unlock()
	return r.Peer.requests[r.id] == r
}

// Holding holds the objects named in a value that is about to be the answer, or
// a part of it, until the requester has got it and holds them itself, or has gone.
func (r *Request) Holding(v Value) {
	if len(v.Refs) > 0 {
		s := r.Peer.home
		s.HoldRefs(v)
		r.Until(func() { s.ReleaseRefs(v) })
	}
}

// Until has done called when the requester has got the answer, which is about to
// be given, and holds what it names, or when nobody will. It must not block.
func (r *Request) Until(done func()) {
	r.Peer.mu.Lock()
	defer r.Peer.mu.Unlock()
	r.taken = append(r.taken, done)
}

func (r *Request) answer(code byte, args []byte, value [][]byte) {
	if r.id == 0 {
		return
	}
	p := r.Peer
	p.mu.Lock()
	wanted := p.requests[r.id] == r
	delete(p.requests, r.id)
	taken := r.taken
	r.taken = nil // it may be answered once more, after it was given up
	waits := wanted && r.local == nil && len(taken) > 0
	if waits {
		p.untaken[r.id] = taken
	}
	p.mu.Unlock()
	if !waits {
		defer each(taken) // who asks in this process decodes it at once
	}
	if !wanted {
		return
	}
	if how := p.home.end.Load(); code == Gone && how == closed {
		code = Closed
	} else if code == Gone && how == ends {
		if r.local != nil {
			r.local.settle(answer{err: p.home.opts.Ended})
		}
		return // the end of the connection tells
	}
	if r.local != nil {
		r.local.settle(newAnswer(code, args, value))
		return
	}
	reply := wire.Reply{ID: r.id, Code: code, Args: args, Names: waits}
	if err := p.conn.Post(reply.Pack(value)...); err != nil {
		// Or the end of the connection, which its reader sees.
		p.take(r.id)
		reply.Code, reply.Names, reply.Args = TooLarge, false, []byte(err.Error())
		p.conn.Post(reply.Pack(nil)...)
	}
}

func each(do []func()) {
	for _, f := range do {
		f()
	}
}

// take does what is to be done when an answer has been taken.
func (p *Session) take(id uint64) {
	p.mu.Lock()
	do := p.untaken[id]
	delete(p.untaken, id)
	p.mu.Unlock()
	each(do)
}

// Holds says whether a process holds an object of this home.
func (p *Session) Holds(object uint64) bool {
	p.home.mu.Lock()
	defer p.home.mu.Unlock()
	return p.held[object] != nil
}

// Notify tells a process that holds an object something that it did not ask.
// The values' frames must not be changed any more.
func Notify[Q any](p *Session, object uint64, op Op[Q, None], q Q) {
	args, value := pack(&q)
	if p.conn == nil {
		endpoint, _ := p.home.found()
		p.home.noticed(endpoint, object, byte(op), args, value)
		return
	}
	notice := wire.Request{Object: object, Op: byte(op), Args: args}
	p.conn.Post(notice.Pack(wire.KindNotice, value)...)
}

// Holders lists the processes that hold an object of this home.
func (s *Server) Holders(object uint64) []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var peers []*Session
	if e := s.objects[object]; e != nil {
		for p := range e.holders {
			peers = append(peers, p)
		}
	}
	return peers
}

// enter enters a request, to be answered or given up.
func (p *Session) enter(r *Request) {
	if r.id == 0 {
		return
	}
	p.mu.Lock()
	p.requests[r.id] = r
	p.mu.Unlock()
}

// gone ends what the process has asked for and held.
func (p *Session) gone(error) {
	s := p.home
	defer s.running.Done()
	s.mu.Lock()
	delete(s.peers, p)
	s.mu.Unlock()
	p.conn.Close()
	p.mu.Lock()
	open := make([]*Request, 0, len(p.requests))
	for _, r := range p.requests {
		open = append(open, r)
	}
	untaken := p.untaken
	p.untaken = map[uint64][]func(){}
	p.mu.Unlock()
	for _, do := range untaken {
		each(do)
	}
	// The last ones first: nothing begins that waits for what ends now.
	slices.SortFunc(open, func(a, b *Request) int { return cmp.Compare(b.id, a.id) })
	for _, r := range open {
		r.object.GiveUp(r)
	}
	s.mu.Lock()
	var left []*entry
	for id := range p.held {
		left = append(left, s.release(p, id))
	}
	s.mu.Unlock()
	for _, e := range left {
		e.Left(p, !p.goodbye)
	}
}

// read handles a message. What a request has to run at once is returned.
func (p *Session) read() (run func(), err error) {
	s := p.home
	p.conn.Linger(s.lastUser.Swap(p) == p && p.idle())
	frames, err := p.conn.Recv()
	if err != nil {
		return nil, err
	}
	kind := wire.KindOf(frames)
	if p.visited == (kind == wire.KindVisit) {
		return nil, wire.ErrMalformed
	}
	switch kind {
	case wire.KindVisit:
		var visit wire.Visit
		if err := wire.Unpack(frames, &visit); err != nil {
			return nil, err
		}
		p.Name, p.PID, p.visited = visit.Name, visit.PID, true
	case wire.KindBye:
		p.goodbye = true
	case wire.KindRequest, wire.KindGiveUp, wire.KindTaken, wire.KindHold, wire.KindRelease:
		var m wire.Request
		if err := m.Unpack(frames); err != nil {
			return nil, err
		}
		return p.handle(s, kind, &m, frames[1:]), nil
	default:
		return nil, wire.ErrMalformed
	}
	return nil, nil
}

// idle says whether nothing that the process has asked for is open.
func (p *Session) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests) == 0
}

func (p *Session) handle(s *Server, kind wire.Kind, m *wire.Request, value [][]byte) (run func()) {
	switch kind {
	case wire.KindRequest:
		s.mu.Lock()
		e := s.objects[m.Object]
		s.mu.Unlock()
		r := &Request{Peer: p, Op: m.Op, Args: m.Args, Value: value, id: m.ID}
		p.enter(r)
		if e == nil {
			r.Fail(Gone, "")
			return nil
		}
		r.object = e.Object
		e.Serve(r)
		return r.here
	case wire.KindGiveUp:
		p.mu.Lock()
		r := p.requests[m.ID]
		p.mu.Unlock()
		if r != nil {
			r.object.GiveUp(r)
		}
	case wire.KindTaken:
		p.take(m.ID)
	case wire.KindHold:
		s.mu.Lock()
		s.hold(p, m.Object)
		s.mu.Unlock()
	case wire.KindRelease:
		s.mu.Lock()
		e := s.release(p, m.Object)
		s.mu.Unlock()
		if e != nil {
			e.Left(p, false)
		}
	}
	return nil
}
