// Package home serves what a process has made to the other processes of its
// run, and lets it use what they have made.
//
// Everything shared has a home: the process that made it, where it is an
// Object with a number. Whoever uses it dials the home's endpoint, which is
// opened when the first object is made, and sends requests. An object lives as
// long as somebody holds it: each process says so once, however many of its
// values name the object, and whoever dies holds nothing.
package object

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// An Object is something of this process that all processes of the run may
// use. Its methods are called from many goroutines.
type Object interface {
	// Serve takes a request, on the goroutine that reads the requester's
	// connection: it must not block. The answer is given once, now or later,
	// by any goroutine.
	Serve(r *Request)
	// GiveUp tells that nobody waits for the answer of r any more. If r is not
	// answered yet, it is to be answered now, by Fail(GivenUp, "").
	GiveUp(r *Request)
	// Left tells that a process does not hold the object any more. It died, or
	// cannot be reached, unless it said so itself.
	Left(p *Session, died bool)
	// Drop tells that nobody holds the object, or that its home ends.
	Drop()
}

// Grace is how long an object lives that nobody holds: its name may be on its
// way to somebody. Tests have less patience.
var Grace = 10 * time.Second

// lastWords bounds the goodbye to processes that do not read.
const lastWords = time.Second

// Options is what a home has to know of its process.
type Options struct {
	Name             string // the process's
	MaxMessage       int64
	HeartbeatTimeout time.Duration // 0 for none

	// Listen opens a listener at which other processes of the run reach this one,
	// and Dial connects to another's.
	Listen func() (*transport.Listener, error)
	Dial   func(ctx context.Context, endpoint string) (*transport.Conn, error)
	Ended  error // what is asked of a home that has ended, and in it, fails with
}

// Server is this process's objects, who uses them, and its own use of others'.
type Server struct {
	opts Options
	self *Session

	dials    context.Context // to others' homes; ends with Close
	endDials context.CancelFunc

	lastUser atomic.Pointer[Session] // whose message came last
	end      atomic.Int32

	opening sync.Mutex // held while the listener is opened

	mu       sync.Mutex
	closed   bool
	listener *transport.Listener
	endpoint string // its
	lastID   uint64
	objects  map[uint64]*entry
	peers    map[*Session]struct{}
	remotes  map[string]*client
	held     map[Ref]int        // how many values here name the object
	uses     map[string]int     // of these, by endpoint
	ended    map[string]error   // endpoints in use that said goodbye, and what that means
	watchers map[Ref][]*watcher // without a process
	running  sync.WaitGroup
}

// entry is an object and who holds it.
type entry struct {
	Object
	id      uint64
	pinned  bool
	holders map[*Session]struct{}
	lapse   *time.Timer // runs while nobody holds it
}

// New makes a home. Its process tells others where it is found: see Endpoint.
func New(opts Options) *Server {
	s := &Server{opts: opts, objects: map[uint64]*entry{}, peers: map[*Session]struct{}{}, remotes: map[string]*client{},
		held: map[Ref]int{}, uses: map[string]int{}, ended: map[string]error{}, watchers: map[Ref][]*watcher{}}
	s.dials, s.endDials = context.WithCancel(context.Background())
	s.self = &Session{Name: opts.Name, home: s, requests: map[uint64]*Request{}, untaken: map[uint64][]func(){}, held: map[uint64]*entry{}}
	return s
}

// Self is this process as one of those that use its objects.
func (s *Server) Self() *Session { return s.self }

// Make gives an object its name. A pinned one lives until Remove; others are
// dropped when nobody has held them for a while.
func (s *Server) Make(o Object, pinned bool) (Ref, error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return Ref{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Ref{}, s.opts.Ended
	}
	s.lastID++
	e := &entry{Object: o, id: s.lastID, pinned: pinned, holders: map[*Session]struct{}{}}
	s.objects[e.id] = e
	s.leave(e)
	return Ref{endpoint, e.id, s.opts.Name, os.Getpid()}, nil
}

// Endpoint is where this home is found; it is opened if it was not.
func (s *Server) Endpoint() (string, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	switch endpoint, closed := s.found(); {
	case endpoint != "":
		return endpoint, nil
	case closed:
		return "", s.opts.Ended
	}
	l, err := s.opts.Listen()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.Close()
		return "", s.opts.Ended
	}
	s.listener, s.endpoint = l, l.Endpoint()
	s.running.Add(1)
	go s.accept(l)
	return s.endpoint, nil
}

// Remove drops an object at once.
func (s *Server) Remove(id uint64) {
	s.mu.Lock()
	e := s.objects[id]
	s.forget(e)
	s.mu.Unlock()
	if e != nil {
		e.Drop()
	}
}

// forget takes an object out. The lock is held.
func (s *Server) forget(e *entry) {
	if e == nil {
		return
	}
	delete(s.objects, e.id)
	for p := range e.holders {
		delete(p.held, e.id)
	}
	if e.lapse != nil {
		e.lapse.Stop()
	}
}

// hold makes a process one of an object's holders. The lock is held.
func (s *Server) hold(p *Session, id uint64) {
	e := s.objects[id]
	if e == nil {
		return // its use will tell
	}
	e.holders[p] = struct{}{}
	p.held[id] = e
	if e.lapse != nil {
		e.lapse.Stop()
		e.lapse = nil
	}
}

// release ends a process's hold; the object is to be told. The lock is held.
func (s *Server) release(p *Session, id uint64) *entry {
	e := p.held[id]
	if e == nil {
		return nil
	}
	delete(p.held, id)
	delete(e.holders, p)
	s.leave(e)
	return e
}

// leave has an object lapse that nobody holds. The lock is held.
func (s *Server) leave(e *entry) {
	if len(e.holders) > 0 || e.pinned || e.lapse != nil {
		return
	}
	e.lapse = time.AfterFunc(s.Within(Grace, 0.5), func() {
		s.mu.Lock()
		gone := len(e.holders) == 0 && s.objects[e.id] == e
		if gone {
			s.forget(e)
		}
		s.mu.Unlock()
		if gone {
			e.Drop()
		}
	})
}

// Within is a time, or that part of heartbeat_timeout if it is less: what nobody
// claims ends within heartbeat_timeout.
func (s *Server) Within(d time.Duration, part float64) time.Duration {
	if silence := s.opts.HeartbeatTimeout; silence > 0 {
		return min(d, time.Duration(part*float64(silence)))
	}
	return d
}

// mine finds an object of this home. The lock is held.
func (s *Server) mine(ref Ref) (e *entry, mine bool) {
	if s.endpoint == "" || ref.Endpoint != s.endpoint {
		return nil, false
	}
	return s.objects[ref.Object], true
}

// Local gives an object of this home, nil when it is another's or gone.
func (s *Server) Local(ref Ref) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, _ := s.mine(ref); e != nil {
		return e.Object
	}
	return nil
}

// found is where this home is found, "" when it was not opened.
func (s *Server) found() (endpoint string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoint, s.closed
}

func (s *Server) accept(l *transport.Listener) {
	defer s.running.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			s.dismiss(conn)
			continue // until the listener is closed
		}
		p := &Session{home: s, conn: conn, requests: map[uint64]*Request{}, untaken: map[uint64][]func(){}, held: map[uint64]*entry{}}
		s.peers[p] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go turn.New(conn, p.read, p.gone).Read()
	}
}

// dismiss says bye to who comes too late.
func (s *Server) dismiss(conn *transport.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	conn.Post(s.bye()...)
	conn.Flush(ctx)
	conn.Close()
}

// How a home ends.
const (
	ends   = 1 + iota // with its process
	closed            // somebody has closed it: its users are told so
)

// Ends says that the home is about to end, and whether somebody has closed it.
// The first call counts.
func (s *Server) Ends(isClosed bool) {
	how := int32(ends)
	if isClosed {
		how = closed
	}
	s.end.CompareAndSwap(0, how)
}

func (s *Server) bye() [][]byte {
	return wire.MustPack(wire.KindBye, wire.HomeBye{Closed: s.end.Load() == closed})
}

// Close tells all users of this home's objects that it ends, drops the
// objects, and ends all connections. The root closes its home when no other
// process of the run is left.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	listener, entries, peers, remotes := s.listener, s.objects, s.peers, s.remotes
	s.objects, s.peers, s.remotes = map[uint64]*entry{}, map[*Session]struct{}{}, map[string]*client{}
	for _, e := range entries {
		if e.lapse != nil {
			e.lapse.Stop()
		}
	}
	s.mu.Unlock()
	s.Ends(false)
	s.endDials()
	for _, e := range entries {
		e.Drop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	bye := s.bye()
	for p := range peers {
		p.conn.Post(bye...)
	}
	for _, r := range remotes {
		if conn := r.connected(); conn != nil {
			conn.Post(bye...)
		}
	}
	for p := range peers {
		p.conn.Flush(ctx)
		p.conn.Close()
	}
	for _, r := range remotes {
		r.close(ctx)
	}
	if listener != nil {
		listener.Close()
	}
	s.running.Wait()
}

// LostError is a home that ended, or cannot be reached, without a word.
type LostError struct {
	Ref Ref
	Err error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("fiber: %s, the home of what is used here, cannot be reached: %v", e.Ref.Process, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Certain says whether the home has ended: it said so, or nobody listens where it
// did. Otherwise another try may reach it.
func (e *LostError) Certain() bool {
	return errors.Is(e.Err, errOver) || errors.Is(e.Err, syscall.ECONNREFUSED)
}

// ErrEnded is a home that somebody has closed, and ErrGone an object that its
// home does not have any more.
var (
	ErrEnded = errors.New("fiber: the process in which it lived was closed")
	ErrGone  = errors.New("fiber: it does not exist any more")
)
