package object

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Session is a process that uses this home's objects. This process has one
// itself: see Server.Self.
type Session struct {
	Name string

	home *Server
	conn *transport.Conn // nil for this process itself

	// Of the goroutine that reads.
	visited bool      // the process has said its name
	goodbye bool      // the process has said that it ends
	ahead   []message // read, not yet handled
	failed  error     // what ended the reading, behind those
	broken  error     // the rule of requests that the process has broken

	mu       sync.Mutex
	requests map[uint64]*Request // not answered yet
	untaken  map[uint64][]func() // answered, not yet taken: what to do once they are
	bytes    int64               // in the requests
	left     bool                // the process has gone
}

// What a home keeps of another process's requests is bounded. Each goroutine that
// waits has one open, so that only a process that has lost its way comes near.
const (
	maxOpen      = 1 << 20  // requests that are open, and answers that are not taken
	maxBytesOpen = 16 << 30 // in these requests, or 16 times max_message if that is more
	maxKept      = 1 << 16  // answers that a process has not taken when it collects garbage: taking follows from that
	maxVisit     = 64 << 10 // bytes in the first message, in which the process says its name
)

// message is a message from a process, but a KindVisit or KindBye.
type message struct {
	kind wire.Kind
	wire.Request
	r *Request // of a KindRequest
}

// Local says whether the session is this process's own.
func (p *Session) Local() bool { return p.conn == nil }

// Request asks something of an object.
type Request struct {
	Peer *Session
	Op   byte

	said
	id     uint64   // 0 if no answer is wanted
	size   int64    // bytes, of another process's
	object *entry   // nil if there is none
	here   func()   // see Run
	taken  []func() // see Until

	until           time.Time // when the answer is not wanted any more, zero for never
	served, skipped bool      // skipped: it was given up before it was served
}

// Refusal is the answer of an object that did not do what it was asked: a code
// and a text.
type Refusal struct {
	Code byte
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// The codes of refusals. Objects number their own from OwnCodes on.
const (
	fine     = iota
	Gone     // the object does not exist
	GivenUp  // the requester stopped waiting
	Unknown  // the object has no such operation, or not with such arguments
	TooLarge // the answer does not fit a message
	Closed   // the user has closed the home
	TooMany  // the process has too many requests open here
	LetGo    // the requester stopped waiting for code of the user's, which had begun
	OwnCodes = 16
)

// Fail answers the request with a refusal.
func (r *Request) Fail(code byte, text string) { r.answer(code, said{frames: [][]byte{[]byte(text)}}) }

// Malformed refuses a request that no Fiber of this version sends.
func (r *Request) Malformed() {
	r.Fail(Unknown, fmt.Sprintf("fiber: a malformed request (operation %d); are both ends the same version?", r.Op))
}

// Breach says that the request is one that no Fiber sends, and could do harm: the
// process is disconnected. Only Serve calls it.
func (r *Request) Breach(why string) {
	if !r.Peer.Local() {
		r.Peer.broken = fmt.Errorf("%w: %s", wire.ErrMalformed, why)
	}
}

// Run calls f, which answers the request and may block. f gets a goroutine of its
// own, with one exception: the only open request of a process, whose f may begin at
// once, is run by the goroutine that has read it, after Serve. If that takes long,
// another goroutine reads on meanwhile.
func (r *Request) Run(atOnce bool, f func()) {
	if atOnce && r.Peer.conn != nil && r.Peer.asksOnly(r) {
		r.here = f
	} else {
		go f()
	}
}

// asksOnly says whether r is the only open request.
func (p *Session) asksOnly(r *Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests) == 1 && p.requests[r.id] == r
}

// Wanted says whether the request still wants an answer: it has none, it was not
// given up, and its deadline is not over. Ask Wanted before you hand over to a
// request that has waited. One whose deadline is over need not be answered: a
// GiveUp follows.
func (r *Request) Wanted() bool {
	if r.id == 0 || r.overdue() {
		return false
	}
	r.Peer.mu.Lock()
	defer r.Peer.mu.Unlock()
	return r.Peer.requests[r.id] == r
}

// ID is the number of the request among those of its process, 0 if no answer is wanted.
func (r *Request) ID() uint64 { return r.id }

// Skipped says whether the request was given up before it was served.
func (r *Request) Skipped() bool { return r.skipped }

func (r *Request) giveUp() {
	if r.skipped = !r.served; r.object == nil {
		r.Fail(GivenUp, "")
	} else {
		r.object.GiveUp(r)
	}
}

func (r *Request) overdue() bool { return !r.until.IsZero() && time.Now().After(r.until) }

// Holding holds the objects named in v, which is about to be the answer or part
// of it, until the requester holds them itself or has gone.
func (r *Request) Holding(v Value) {
	if len(v.Refs()) > 0 {
		s := r.Peer.home
		s.HoldRefs(v)
		r.Until(func() { s.ReleaseRefs(v) })
	}
}

// Until has done called once the requester has the answer, which is about to be
// sent, and holds what it names, or once the answer cannot arrive any more. done
// must not block.
func (r *Request) Until(done func()) {
	r.Peer.mu.Lock()
	defer r.Peer.mu.Unlock()
	r.taken = append(r.taken, done)
}

func (r *Request) answer(code byte, says said) {
	if r.id == 0 {
		return
	}
	p := r.Peer
	p.mu.Lock()
	wanted := p.requests[r.id] == r
	if wanted {
		delete(p.requests, r.id)
		p.bytes -= r.size
	}
	taken := r.taken
	r.taken = nil // the request may be answered again after it was given up
	waits := wanted && !p.Local() && len(taken) > 0
	if waits {
		p.untaken[r.id] = taken
	}
	p.mu.Unlock()
	if !waits {
		defer each(taken) // a requester in this process decodes the answer at once
	}
	if !wanted {
		return
	}
	how := p.home.end.Load()
	if code == Gone && how == closed {
		code = Closed
	}
	ending := code == Gone && how == ends
	if p.Local() {
		a := newAnswer(code, says)
		if ending {
			a.err = p.home.opts.Ended
		}
		p.home.own.answered(r.id, a)
	}
	if p.Local() || ending { // another process learns it from the end of the connection
		return
	}
	reply := wire.Reply{ID: r.id, Code: code, Names: waits}
	if err := p.conn.Post(reply.Pack(says.frames...)...); err != nil {
		// The answer is too large, or the connection has ended, which its reader sees.
		p.take(r.id)
		reply.Code, reply.Names = TooLarge, false
		p.conn.Post(reply.Pack([]byte(err.Error()))...)
	}
}

// admit opens a request. A process that has too many open is refused, and goes on.
func (p *Session) admit(r *Request) (ok bool) {
	p.mu.Lock()
	_, untaken := p.untaken[r.id]
	open, bytes := len(p.requests)+len(p.untaken), p.bytes
	twice := p.requests[r.id] != nil || untaken
	ok = !twice && (p.Local() || open < p.home.maxOpen && bytes+r.size <= max(p.home.maxBytes, r.size))
	if ok {
		p.requests[r.id] = r
		p.bytes += r.size
	}
	p.mu.Unlock()
	switch {
	case ok:
	case twice:
		r.Breach(fmt.Sprintf("request %d comes a second time", r.id))
	default:
		refusal := wire.Reply{ID: r.id, Code: TooMany}
		text := fmt.Sprintf("fiber: this process has %d requests of %d bytes open in %s, or answers that it has not taken; let fewer goroutines wait at once", open, bytes, p.home.opts.Name)
		p.conn.Post(refusal.Pack([]byte(text))...)
	}
	return ok
}

func each(do []func()) {
	for _, f := range do {
		f()
	}
}

// take runs what was to be done once an answer was taken.
func (p *Session) take(id uint64) {
	p.mu.Lock()
	do := p.untaken[id]
	delete(p.untaken, id)
	p.mu.Unlock()
	each(do)
}

// Notify sends a notice of an object to a process that holds it.
// The values' frames must not be changed afterwards.
func Notify[Q any](p *Session, object uint64, op Op[Q, None], q Q) {
	if p.conn == nil {
		endpoint, _ := p.home.found()
		p.home.noticed(endpoint, object, &Request{Op: byte(op), said: said{plain: &q}})
		return
	}
	notice := wire.Request{Object: object, Op: byte(op)}
	p.conn.Post(notice.Pack(wire.KindNotice, Pack(&q)...)...)
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

// mayWarn says whether a warning is due: one a second is enough of a process that
// comes back each time.
func (s *Server) mayWarn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Since(s.warned) > time.Second
	if due {
		s.warned = time.Now()
	}
	return due
}

// Gone says whether the process has gone, and whether it died or became unreachable.
func (p *Session) Gone() (gone, died bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left, p.left && !p.goodbye
}

// gone gives up the process's requests and ends its holds.
func (p *Session) gone(why error) {
	s := p.home
	defer s.running.Done()
	if (errors.Is(why, wire.ErrMalformed) || errors.Is(why, transport.ErrProtocol) || errors.As(why, new(*transport.SizeError))) && s.mayWarn() {
		s.opts.Log.Warn("fiber: a process that used objects of this one was disconnected", "process", cmp.Or(p.Name, "unknown"), "error", why)
	}
	s.mu.Lock()
	delete(s.peers, p)
	if s.named[p.Name] == p {
		delete(s.named, p.Name)
	}
	s.mu.Unlock()
	s.lastUser.CompareAndSwap(p, nil)
	p.conn.Close()
	p.mu.Lock()
	p.left = true
	open := slices.Collect(maps.Values(p.requests))
	untaken := p.untaken
	p.untaken = map[uint64][]func(){}
	p.mu.Unlock()
	for _, do := range untaken {
		each(do)
	}
	// The last ones first, so that giving up one does not start another of them.
	slices.SortFunc(open, func(a, b *Request) int { return cmp.Compare(b.id, a.id) })
	for _, r := range open {
		r.giveUp()
	}
	s.mu.Lock()
	var left []*entry
	for id, e := range s.objects {
		delete(e.copies, p)
		if _, is := e.Object.(*listed); is && !p.goodbye {
			e.awaited = true // its maker may come back
		}
		if e := s.release(p, id); e != nil {
			left = append(left, e)
		}
	}
	s.mu.Unlock()
	for _, e := range left {
		e.Left(p, !p.goodbye)
	}
}

// read handles the next message. It returns what a request has to run at once:
// see Run.
func (p *Session) read() (run func(), err error) {
	_ = p.conn.Room() // who does not read answers gets no more; an error comes again
	if len(p.ahead) > 0 {
		m := p.ahead[0]
		if p.ahead = p.ahead[1:]; len(p.ahead) == 0 {
			p.ahead = nil
		}
		return p.handle(m), p.broken
	}
	if p.failed != nil {
		return nil, p.failed
	}
	if p.home.lastUser.Swap(p) == p && p.idle() {
		p.conn.Linger()
	}
	m, err := p.receive()
	if err != nil {
		return nil, err
	}
	if m.r != nil {
		p.lookAhead()
	}
	return p.handle(m), p.broken
}

// maxAhead bounds the messages that are read before those in front of them are
// handled. Each is short: see transport.Conn.Arrived.
const maxAhead = 4096

// lookAhead reads what has come behind a request, and handles what ends a
// request: a home that has fallen behind serves nobody who has left.
func (p *Session) lookAhead() {
	for len(p.ahead) < maxAhead && p.conn.Arrived() {
		m, err := p.receive()
		switch {
		case err != nil:
			p.failed = err
			return
		case m.kind == wire.KindGiveUp:
			p.handle(m)
		case m.kind != 0:
			p.ahead = append(p.ahead, m)
		}
	}
}

// receive reads a message. One without a kind is not to be handled.
func (p *Session) receive() (m message, err error) {
	frames, err := p.conn.Recv()
	if err != nil {
		return m, err
	}
	kind := wire.KindOf(frames)
	if p.visited == (kind == wire.KindVisit) {
		return m, wire.ErrMalformed
	}
	switch kind {
	case wire.KindVisit:
		var visit wire.Visit
		if err := wire.Unpack(frames, &visit); err != nil {
			return m, err
		}
		p.Name, p.visited = visit.Name, true
		p.home.mu.Lock()
		p.home.named[p.Name] = p
		p.home.mu.Unlock()
		p.conn.LimitMessages(0)
	case wire.KindBye:
		p.goodbye = true
	case wire.KindRequest, wire.KindGiveUp, wire.KindTaken, wire.KindHold, wire.KindRelease:
		var m wire.Request
		if err := m.Unpack(frames); err != nil {
			return message{}, err
		}
		return p.message(kind, m, said{frames: frames}), p.broken
	default:
		return m, wire.ErrMalformed
	}
	return m, nil
}

// idle says whether the process has no open request.
func (p *Session) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests) == 0
}

// message makes a message for handle. A request is open from now on, unless it is
// refused.
func (p *Session) message(kind wire.Kind, m wire.Request, says said) message {
	if kind != wire.KindRequest {
		return message{kind, m, nil}
	}
	s := p.home
	s.mu.Lock()
	e := s.objects[m.Object]
	s.mu.Unlock()
	r := &Request{Peer: p, Op: m.Op, said: says, id: m.ID, size: int64(codec.Size(says.frames)), object: e}
	if m.Left > 0 {
		r.until = time.Now().Add(m.Left)
	}
	if m.ID > 0 && !p.admit(r) {
		return message{}
	}
	return message{kind, m, r}
}

// handle handles a message. It returns what a request has to run: see Run.
func (p *Session) handle(m message) (run func()) {
	s := p.home
	switch m.kind {
	case wire.KindRequest:
		r := m.r
		switch {
		case r.object == nil:
			r.Fail(Gone, "")
		case !r.skipped && !r.overdue():
			r.served = true
			r.object.served.Add(1)
			r.object.Serve(r)
		}
		return r.here
	case wire.KindGiveUp:
		p.mu.Lock()
		r := p.requests[m.ID]
		p.mu.Unlock()
		if r != nil {
			r.giveUp()
			break
		}
		s.mu.Lock()
		e := s.objects[m.Object]
		s.mu.Unlock()
		if e == nil {
			break
		}
		if l, ok := e.Object.(Lender); ok {
			l.TakeBack(p, m.ID)
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
