package object

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/garbage"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// client is this process's connection to a home. Server.own has none: it leads to
// this process itself.
type client struct {
	home  *Server
	to    Ref           // the home, without an object
	ready chan struct{} // closed when conn or err is set

	reader  *turn.Reader // nil for own; set before ready is closed
	goodbye bool         // the home has said goodbye; of whoever reads
	closed  atomic.Bool  // the user has closed it

	visited time.Time // when the last visit has ended; guarded by home.mu, as the next

	// holds counts the holds taken on objects there. The home has surely heard of
	// the first known ones. Both are guarded by home.mu.
	holds, known int

	mu      sync.Mutex
	conn    *transport.Conn
	err     error // why no request can be sent any more
	lastID  uint64
	waiting map[uint64]*Pending
}

func newClient(s *Server, ref Ref) *client {
	ref.Object = 0
	return &client{home: s, to: ref, ready: make(chan struct{}), waiting: map[uint64]*Pending{}}
}

// own says whether this process itself is the home.
func (r *client) own() bool { return r == r.home.own }

// remote finds or makes the connection to a home. The lock is held.
func (s *Server) remote(ref Ref) *client {
	r := s.remotes[ref.Endpoint]
	if r == nil {
		r = newClient(s, ref)
		r.holds = 1 // for the earlier holds, if any, which open tells the home
		s.remotes[ref.Endpoint] = r
		s.running.Add(1)
		go r.run()
	}
	return r
}

// reach waits until a home is connected, or cannot be.
func (s *Server) reach(ctx context.Context, ref Ref) (*client, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, s.opts.Ended
	}
	if err := s.ended[ref.Endpoint]; err != nil {
		s.mu.Unlock()
		return nil, err
	}
	r := s.remote(ref)
	s.mu.Unlock()
	if r.own() || r.connected() != nil {
		return r, nil
	}
	select {
	case <-r.ready:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connected returns the connection, nil when there is none.
func (r *client) connected() *transport.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// WhenHeld calls f once the homes of all objects held here know of the holds, or
// have ended. It may return before. Each home is asked on the connection that
// carried the holds, behind them. A home that does not answer delays f by
// heldTime at most, and only once, so that one process that does not move cannot
// hold up the others.
func (s *Server) WhenHeld(f func()) {
	unsure := map[*client]int{}
	s.mu.Lock()
	for _, r := range s.remotes {
		if r.known < r.holds {
			unsure[r] = r.holds
		}
	}
	s.mu.Unlock()
	if len(unsure) == 0 {
		f()
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(s.dials, heldTime)
		defer cancel()
		var all sync.WaitGroup
		for r, holds := range unsure {
			all.Go(func() {
				Ask(ctx, s, r.to, nothing, None{}, nil)
				s.mu.Lock()
				defer s.mu.Unlock()
				r.known = max(r.known, holds)
			})
		}
		all.Wait()
		f()
	}()
}

const heldTime = 10 * time.Second

// nothing is asked of object 0, which does not exist: the home answers Gone.
const nothing Op[None, None] = 0

// post queues a message, if there is a connection.
func (r *client) post(kind wire.Kind, m wire.Request, says said) (queued bool) {
	if r.own() {
		self := r.home.self
		self.handle(self.message(kind, m, says))
		return true
	}
	conn := r.connected()
	return conn != nil && conn.Post(m.Pack(kind, says.frames...)...) == nil
}

// run dials and then reads until the connection ends.
func (r *client) run() {
	s := r.home
	conn, err := s.opts.Dial(s.dials, r.to.Endpoint)
	if err == nil {
		if err = r.open(conn); err != nil {
			conn.Close()
		}
	}
	if err != nil {
		if s.dials.Err() != nil {
			err = s.opts.Ended
		}
		r.end(err, false)
		close(r.ready)
		s.running.Done()
		return
	}
	close(r.ready)
	r.reader.Serve()
}

// open introduces this process to the home and tells it what is held here.
func (r *client) open(conn *transport.Conn) error {
	s := r.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.opts.Ended
	}
	if err := conn.Post(wire.MustPack(wire.KindVisit, wire.Visit{Name: s.opts.Name})...); err != nil {
		return err
	}
	for ref := range s.held {
		if ref.Endpoint == r.to.Endpoint {
			m := wire.Request{Object: ref.Object}
			conn.Post(m.Pack(wire.KindHold)...)
		}
	}
	r.reader = turn.New(conn, r.handle, nil, r.idle, func(err error) {
		conn.Close()
		r.end(err, r.goodbye)
		s.running.Done()
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = conn // from now on Hold tells the home itself
	return nil
}

// Closed says that the user closes a home. Its goodbye says so as well, and may
// not come.
func (s *Server) Closed(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.remotes[ref.Endpoint]; r != nil {
		r.closed.Store(true)
	} else if s.uses[ref.Endpoint] > 0 && s.ended[ref.Endpoint] == nil {
		s.ended[ref.Endpoint] = ErrEnded
	}
}

// end fails the waiting requests, and makes room for another connection.
func (r *client) end(err error, goodbye bool) {
	s := r.home
	if errors.Is(err, fs.ErrNotExist) {
		goodbye = true // a process that ends as it should removes its socket
	}
	switch {
	case r.closed.Load():
		goodbye, err = true, ErrEnded
	case goodbye:
		err = &LostError{r.to, errOver}
	case !errors.Is(err, s.opts.Ended):
		err = &LostError{r.to, err}
	}
	s.mu.Lock()
	if s.remotes[r.to.Endpoint] == r {
		delete(s.remotes, r.to.Endpoint)
	}
	switch {
	case s.uses[r.to.Endpoint] == 0 || s.closed:
	case goodbye:
		s.ended[r.to.Endpoint] = err
	case r.connected() != nil:
		s.remote(r.to) // the home may live on, and must learn again what is held here
	}
	var told []*watcher
	for watched, watchers := range s.watchers {
		if watched.Endpoint == r.to.Endpoint {
			told = append(told, watchers...)
		}
	}
	s.mu.Unlock()
	r.mu.Lock()
	r.conn, r.err = nil, err
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, p := range waiting {
		p.settle(answer{err: err})
	}
	for _, w := range told {
		(*w)(&Request{Op: NoticeLost})
	}
}

var errOver = errors.New("it ended without being closed")

// NoticeLost tells a watcher that the connection to the object's home has ended.
const NoticeLost = 0xff

// handle handles a message of the home's.
func (r *client) handle(frames [][]byte) error {
	switch wire.KindOf(frames) {
	case wire.KindReply:
		var m wire.Reply
		if err := m.Unpack(frames); err != nil {
			return err
		}
		a := newAnswer(m.Code, said{frames: frames})
		if m.Names {
			kept := frames
			a.keep = &kept
			if r.home.kept.Add(1)%r.home.maxKept == 0 {
				go runtime.GC() // of a large heap, the next one may be far away
			}
			// The answer's values are not used any more, and what was decoded from them is held.
			garbage.Then(&kept, func(id uint64) {
				r.home.kept.Add(-1)
				r.home.WhenHeld(func() { r.post(wire.KindTaken, wire.Request{ID: id}, said{}) })
			}, m.ID)
		}
		r.answered(m.ID, a)
	case wire.KindNotice:
		var m wire.Request
		if err := m.Unpack(frames); err != nil {
			return err
		}
		r.home.noticed(r.to.Endpoint, m.Object, &Request{Op: m.Op, said: said{frames: frames}})
	case wire.KindBye:
		var bye wire.HomeBye
		if err := wire.Unpack(frames, &bye); err != nil {
			return err
		}
		r.goodbye = true
		if bye.Closed {
			r.closed.Store(true)
		}
	default:
		return wire.ErrMalformed
	}
	return nil
}

// answered ends the waiting for an answer.
func (r *client) answered(id uint64, a answer) {
	r.mu.Lock()
	p := r.waiting[id]
	delete(r.waiting, id)
	r.mu.Unlock()
	if p != nil {
		p.settle(a)
	}
}

// idle says whether no request waits for an answer.
func (r *client) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) == 0
}

// send sends a request. If p is nil, no answer is wanted, and the error may be
// transport.ErrUnknownOutcome.
func (r *client) send(ctx context.Context, m wire.Request, says said, p *Pending) error {
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return r.err
	}
	conn := r.conn
	if p != nil {
		r.lastID++
		m.ID = r.lastID
		p.id, p.object, p.client = m.ID, m.Object, r
		if !p.deadline.IsZero() {
			m.Left = max(1, time.Until(p.deadline))
		}
		r.waiting[m.ID] = p
	}
	r.mu.Unlock()
	if r.own() {
		self := r.home.self
		self.handle(self.message(wire.KindRequest, m, says))
		return nil
	}
	var err error
	if frames := m.Pack(wire.KindRequest, says.frames...); p != nil && p.insists {
		err = conn.Post(frames...)
	} else {
		err = conn.Send(ctx, frames...)
	}
	var size *transport.SizeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &size), err == ctx.Err(): // nothing was sent
		if p != nil {
			r.mu.Lock()
			delete(r.waiting, p.id)
			r.mu.Unlock()
		}
		return err
	case p != nil:
		return nil // it is on its way, or end settles p with the reason why the connection has ended
	case errors.Is(err, transport.ErrUnknownOutcome):
		return err
	}
	return &LostError{r.to, err}
}
