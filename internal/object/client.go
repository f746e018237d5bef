package object

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// client is the connection to another home.
type client struct {
	home     *Server
	endpoint string
	process  string
	pid      int
	ready    chan struct{} // closed when conn or err is set

	turn    *turn.Turn // who reads
	reading *transport.Conn
	goodbye bool        // the home has said it; goes with the turn
	closed  bool        // and that it was closed
	awaited atomic.Bool // somebody waits for a notice

	holds, known int // how often an object there was held, and how often its home knows of; under home.mu

	mu      sync.Mutex
	conn    *transport.Conn
	err     error // what no request can be made for
	lastID  uint64
	waiting map[uint64]*pending
}

// remote finds or makes the connection to a home. The lock is held.
func (s *Server) remote(ref Ref) *client {
	r := s.remotes[ref.Endpoint]
	if r == nil {
		r = &client{home: s, endpoint: ref.Endpoint, process: ref.Process, pid: ref.PID, ready: make(chan struct{}), waiting: map[uint64]*pending{},
			holds: 1} // those of before, perhaps, which it says when it is connected
		s.remotes[ref.Endpoint] = r
		s.running.Add(1)
		go r.run()
	}
	return r
}

// reach waits for the connection to a home.
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
	select {
	case <-r.ready:
	default:
		select {
		case <-r.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r, nil
}

// connected gives the connection, nil when there is none.
func (r *client) connected() *transport.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// WhenHeld calls f when the homes of all objects that are held here know it, or
// have ended. They are asked behind what they were told, on the same connection.
// One that does not answer is not waited for longer than heldTime, and once: others
// are not to be held up by a process that does not move.
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
				Ask(ctx, s, Ref{Endpoint: r.endpoint, Process: r.process, PID: r.pid}, nothing, None{}, nil)
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

// nothing is asked of the object 0, which no home has: its home answers Gone.
const nothing Op[None, None] = 0

// post queues a message, if there is a connection.
func (r *client) post(kind wire.Kind, m wire.Request, value [][]byte) {
	if conn := r.connected(); conn != nil {
		conn.Post(m.Pack(kind, value)...)
	}
}

// run dials and then reads until the connection ends.
func (r *client) run() {
	s := r.home
	conn, err := s.opts.Dial(s.dials, r.endpoint)
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
	r.turn.Read()
}

// open says who visits and what it holds.
func (r *client) open(conn *transport.Conn) error {
	s := r.home
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.opts.Ended
	}
	if err := conn.Post(wire.MustPack(wire.KindVisit, wire.Visit{Name: s.opts.Name, PID: os.Getpid()})...); err != nil {
		return err
	}
	for ref := range s.held {
		if ref.Endpoint == r.endpoint {
			m := wire.Request{Object: ref.Object}
			conn.Post(m.Pack(wire.KindHold, nil)...)
		}
	}
	r.turn = turn.New(conn, r.readOne, func(err error) {
		conn.Close()
		r.end(err, r.goodbye)
		s.running.Done()
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.conn = conn, conn // whoever holds another one from now on says so himself
	return nil
}

// end fails what waits, and makes room for another connection.
func (r *client) end(err error, goodbye bool) {
	s := r.home
	ref := Ref{Endpoint: r.endpoint, Process: r.process, PID: r.pid}
	if errors.Is(err, fs.ErrNotExist) {
		goodbye = true // who ends as it should removes its socket
	}
	switch {
	case r.closed:
		err = ErrEnded
	case goodbye:
		err = &LostError{ref, errOver}
	case !errors.Is(err, s.opts.Ended):
		err = &LostError{ref, err}
	}
	s.mu.Lock()
	if s.remotes[r.endpoint] == r {
		delete(s.remotes, r.endpoint)
	}
	switch {
	case s.uses[r.endpoint] == 0 || s.closed:
	case goodbye:
		s.ended[r.endpoint] = err
	case r.connected() != nil:
		s.remote(ref) // its home may live on, and is to know what is held here
	}
	var told []*watcher
	for watched, watchers := range s.watchers {
		if watched.Endpoint == r.endpoint {
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
		w.watch(NoticeLost, nil, nil)
	}
}

var errOver = errors.New("it has ended, and nobody has closed it")

// NoticeLost is what a watcher is told when the connection to the object's
// home has ended.
const NoticeLost = 0xff

// readOne waits for a message and handles it.
func (r *client) readOne() (func(), error) {
	frames, err := r.reading.Recv()
	if err == nil {
		err = r.handle(frames)
	}
	return nil, err
}

func (r *client) handle(frames [][]byte) error {
	switch wire.KindOf(frames) {
	case wire.KindReply:
		var m wire.Reply
		if err := m.Unpack(frames); err != nil {
			return err
		}
		r.mu.Lock()
		p := r.waiting[m.ID]
		delete(r.waiting, m.ID)
		aside := p != nil && p.leads.Load() && len(r.waiting) == 0
		r.mu.Unlock()
		if m.Names {
			runtime.AddCleanup(&frames[0], r.took, m.ID)
		}
		if p != nil {
			p.settle(newAnswer(m.Code, m.Args, frames[1:]))
		}
		if aside {
			r.turn.StepAside()
		}
	case wire.KindNotice:
		var m wire.Request
		if err := m.Unpack(frames); err != nil {
			return err
		}
		r.home.noticed(r.endpoint, m.Object, m.Op, m.Args, frames[1:])
		if r.awaited.Swap(false) && r.idle() {
			r.turn.StepAside()
		}
	case wire.KindBye:
		var bye wire.HomeBye
		if err := wire.Unpack(frames, &bye); err != nil {
			return err
		}
		r.goodbye, r.closed = true, bye.Closed
	default:
		return wire.ErrMalformed
	}
	return nil
}

// took says that an answer has been taken: it is not needed any more, and what
// was decoded from it is held.
func (r *client) took(id uint64) {
	r.home.WhenHeld(func() { r.post(wire.KindTaken, wire.Request{ID: id}, nil) })
}

// lead reads what comes until done says so, or for a moment.
func (r *client) lead(done func() bool) {
	r.turn.Lead(done)
	if !r.idle() {
		r.turn.Attend()
	}
}

// idle says whether nothing waits for an answer.
func (r *client) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) == 0
}

// close says what is left to say and ends the connection.
func (r *client) close(ctx context.Context) {
	if conn := r.connected(); conn != nil {
		conn.Flush(ctx)
		conn.Close()
	}
}

// send sends a request; with p nil no answer is wanted.
func (r *client) send(ctx context.Context, m wire.Request, value [][]byte, p *pending) error {
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return r.err
	}
	conn := r.conn
	if p != nil {
		r.lastID++
		m.ID = r.lastID
		p.id, p.remote = m.ID, r
		r.waiting[m.ID] = p
	}
	r.mu.Unlock()
	err := conn.Send(ctx, m.Pack(wire.KindRequest, value)...)
	var size *transport.SizeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &size), ctx.Err() != nil:
		if p != nil {
			r.mu.Lock()
			delete(r.waiting, p.id)
			r.mu.Unlock()
		}
		return err
	case p != nil:
		return nil // the end of the connection, which tells what it means
	}
	return &LostError{Ref{Endpoint: r.endpoint, Process: r.process, PID: r.pid}, err}
}
