// Package object lets the processes of a run use each other's objects: it
// serves those that this process has made, and sends requests to those that
// others have made.
//
// Everything shared has a home: the process that made it, where it is an
// Object with a number. Each process has one Server. Other processes dial its
// endpoint, which opens when the first object is made, and send requests. An
// object lives as long as some process holds it. A process takes its hold
// once, however many of its values name the object; a process that dies holds
// nothing.
package object

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/shm"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// An Object lives in this process, and all processes of the run may use it.
// Its methods are called from many goroutines.
type Object interface {
	// Serve handles a request, on the goroutine that reads the requester's
	// connection, and must not block. Each request is answered once, now or
	// later, by any goroutine.
	Serve(r *Request)
	// GiveUp says that the requester has stopped waiting for the answer to r.
	// If r is still unanswered, GiveUp answers it with Fail(GivenUp, ""), or
	// with LetGo if code of the user's has begun to carry it out. If r was given
	// up before it was served (see Request.Skipped), it never is.
	GiveUp(r *Request)
	// Left says that a process no longer holds the object. died is true when
	// the process died or became unreachable, false when it let go itself.
	Left(p *Session, died bool)
	// Drop says that no process holds the object, or that its home ends.
	Drop()
}

// A Lender is an Object whose answers hand something over that it can take back.
type Lender interface {
	// TakeBack says that the process gave a request up, and does not know yet that
	// it was answered: it does not want the answer.
	TakeBack(p *Session, request uint64)
}

// Grace is how long an object outlives its last holder: its name may be on its
// way to another process. Tests shorten it.
var Grace = 10 * time.Second

// lastWords bounds the time for goodbyes, since a process may not read them.
const lastWords = time.Second

// Options are what a Server needs from its process.
type Options struct {
	Name             string // the process's
	MaxMessage       int64
	HeartbeatTimeout time.Duration // 0 for none

	// Listen opens a listener at which other processes of the run reach this one,
	// and Dial connects to another's.
	Listen func(ctx context.Context) (*transport.Listener, error)
	Dial   func(ctx context.Context, endpoint string) (*transport.Conn, error)
	Ended  error // of every call after Close
	Log    *slog.Logger

	Segments *shm.Store // for large values; nil for none

	// Catalog asks the root for its catalog; nil in the root.
	Catalog func(ctx context.Context) (Ref, error)
}

// Server holds this process's objects, the sessions of the processes that use
// them, and the connections to the homes of others' objects.
type Server struct {
	opts Options
	self *Session
	own  *client // with which this process uses its own objects

	dials    context.Context // to other homes; ends with Close
	endDials context.CancelFunc

	maxOpen  int // of the requests of another process: see admit
	maxBytes int64

	kept    atomic.Int64 // answers that were not taken yet in other homes
	maxKept int64        // a collection of garbage is due when there are so many

	lastUser atomic.Pointer[Session] // the sender of the last message
	end      atomic.Int32
	catalog  lock.Once[Ref] // the root's
	leaving  atomic.Bool    // see Leave
	takes    *semaphore.Weighted

	askingAfter atomic.Bool // see askAfterMade

	opening sync.Mutex // held while the listener is opened

	mu       sync.Mutex
	closed   bool
	warned   time.Time // of a process that was disconnected
	listener *transport.Listener
	endpoint string // the listener's
	lastID   uint64
	objects  map[uint64]*entry
	peers    map[*Session]struct{}
	named    map[string]*Session // the last of each name
	remotes  map[string]*client
	held     map[Ref]int        // how many values here name the object
	uses     map[string]int     // how many objects are held, by endpoint
	visits   map[string]int     // for what else endpoints are needed: see visit
	ended    map[string]error   // endpoints in use that said goodbye, and the error for requests to them
	watchers map[Ref][]*watcher // by refs without Process and PID
	made     map[Ref]*made      // by the names in the catalog

	withdrawn map[Ref]bool // here; their homes do not know yet
	running   sync.WaitGroup
}

// entry is an object with its holders.
type entry struct {
	Object
	id      uint64
	pinned  bool
	awaited bool // its first holder is another process
	holders map[*Session]bool
	copies  map[*Session]bool // processes that get NoticeDropped
	served  atomic.Int64      // requests
	lapse   *time.Timer       // runs while there are no holders
}

// New makes a Server. Its listener is opened by the first Make or Endpoint.
func New(opts Options) *Server {
	s := &Server{opts: opts, maxOpen: maxOpen, maxBytes: max(maxBytesOpen, 16*opts.MaxMessage), maxKept: maxKept,
		objects: map[uint64]*entry{}, peers: map[*Session]struct{}{}, named: map[string]*Session{}, remotes: map[string]*client{},
		held: map[Ref]int{}, uses: map[string]int{}, visits: map[string]int{}, ended: map[string]error{}, watchers: map[Ref][]*watcher{}, made: map[Ref]*made{},
		withdrawn: map[Ref]bool{}, takes: semaphore.NewWeighted(takesAtOnce)}
	if opts.Catalog == nil {
		s.lastID = catalogID
		s.objects[catalogID] = &entry{Object: catalog{}, id: catalogID, pinned: true, holders: map[*Session]bool{}}
	}
	s.dials, s.endDials = context.WithCancel(context.Background())
	s.own = newClient(s, Ref{})
	close(s.own.ready)
	s.self = &Session{Name: opts.Name, home: s, requests: map[uint64]*Request{}}
	return s
}

// Self is this process's session with itself.
func (s *Server) Self() *Session { return s.self }

// Make registers an object and returns its name. A pinned object lives until
// Remove; any other is dropped once it has had no holder for Grace, or for half
// of heartbeat_timeout if that is less.
func (s *Server) Make(o Object, pinned bool) (Ref, error) {
	return s.register(&entry{Object: o, pinned: pinned})
}

// MakeFor is Make for another process, which holds the object once it has the
// name. Since it may be stopped before, the object has heartbeat_timeout longer: a
// process that is silent for that long is lost.
func (s *Server) MakeFor(o Object) (Ref, error) { return s.register(&entry{Object: o, awaited: true}) }

func (s *Server) register(e *entry) (Ref, error) {
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
	e.id, e.holders = s.lastID, map[*Session]bool{}
	s.objects[e.id] = e
	s.leave(e)
	return Ref{endpoint, e.id, s.opts.Name, self.Of().PID}, nil
}

// Endpoint returns where other processes reach this one, and opens the listener
// if necessary.
func (s *Server) Endpoint() (string, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	switch endpoint, closed := s.found(); {
	case endpoint != "":
		return endpoint, nil
	case closed:
		return "", s.opts.Ended
	}
	l, err := s.opts.Listen(s.dials)
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
	s.remotes[s.endpoint] = s.own
	s.running.Add(1)
	go s.accept(l)
	return s.endpoint, nil
}

// Remove drops an object at once, held or not.
func (s *Server) Remove(id uint64) {
	s.mu.Lock()
	e := s.objects[id]
	s.forget(e)
	s.mu.Unlock()
	if e != nil {
		e.dropped()
	}
}

// dropped ends an object that is not in the tables any more.
func (e *entry) dropped() {
	e.Drop()
	for p := range e.copies {
		Notify(p, e.id, Op[None, None](NoticeDropped), None{})
	}
}

// forget removes an object from the tables. The lock is held.
func (s *Server) forget(e *entry) {
	if e == nil {
		return
	}
	delete(s.objects, e.id)
	if e.lapse != nil {
		e.lapse.Stop()
	}
}

// hold makes a process one of an object's holders. The lock is held.
func (s *Server) hold(p *Session, id uint64) {
	e := s.objects[id]
	if e == nil {
		return // requests to it will fail
	}
	e.holders[p] = true
	if e.lapse != nil {
		e.lapse.Stop()
		e.lapse = nil
	}
}

// release ends a process's hold and returns the object, whose Left the caller
// is to call. The lock is held.
func (s *Server) release(p *Session, id uint64) *entry {
	e := s.objects[id]
	if e == nil || !e.holders[p] {
		return nil
	}
	delete(e.holders, p)
	s.leave(e)
	return e
}

// leave starts the timer that drops an object without holders. The lock is held.
func (s *Server) leave(e *entry) {
	if len(e.holders) > 0 || e.pinned || e.lapse != nil {
		return
	}
	grace := Grace
	if silence := s.opts.HeartbeatTimeout; silence > 0 {
		grace = min(grace, silence/2) // what stays unclaimed ends within heartbeat_timeout
		if e.awaited {
			e.awaited = false
			grace += silence
		}
	}
	e.lapse = self.AfterFunc(grace, func() {
		s.mu.Lock()
		gone := len(e.holders) == 0 && s.objects[e.id] == e
		if gone {
			s.forget(e)
		}
		s.mu.Unlock()
		if gone {
			e.dropped()
		}
	})
}

// mine says whether ref names an object of this home. The lock is held.
func (s *Server) mine(ref Ref) bool { return s.endpoint != "" && ref.Endpoint == s.endpoint }

// Local returns an object of this home, nil when ref names another home's or
// the object is gone.
func (s *Server) Local(ref Ref) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[ref.Object]; e != nil && s.mine(ref) {
		return e.Object
	}
	return nil
}

// found returns the endpoint, "" before the listener is opened.
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
		p := &Session{home: s, conn: conn, requests: map[uint64]*Request{}, untaken: map[uint64][]func(){}}
		s.peers[p] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		conn.LimitMessages(maxVisit)
		go turn.Serve(p.read, p.gone)
	}
}

// How a home ends.
const (
	ends   = 1 + iota // with its process
	closed            // by the user; the other processes are told so
)

// Ends says that the home is about to end, and whether because the user has
// closed it. Only the first call counts.
func (s *Server) Ends(isClosed bool) {
	how := int32(ends)
	if isClosed {
		how = closed
	}
	s.end.CompareAndSwap(0, how)
}

// Ended says whether err is that of using an object here after the home's end.
func (s *Server) Ended(err error) bool { return errors.Is(err, s.opts.Ended) }

// Close drops all objects, says goodbye to all connected processes, and ends
// the connections. The root calls Close when no other process of the run is
// left.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.Ends(false) // before objects are missed
	var conns []*transport.Conn
	for p := range s.peers {
		conns = append(conns, p.conn)
	}
	for _, r := range s.remotes {
		if conn := r.connected(); conn != nil {
			conns = append(conns, conn)
		}
	}
	listener, entries := s.listener, s.objects
	s.objects, s.peers, s.remotes = nil, nil, nil
	s.mu.Unlock()
	s.endDials()
	for _, e := range entries {
		e.Drop()
	}
	s.opts.Segments.Close()
	s.dismiss(conns...)
	if listener != nil {
		listener.Close()
	}
	s.running.Wait()
}

// dismiss says goodbye on connections, and ends them.
func (s *Server) dismiss(conns ...*transport.Conn) {
	bye := wire.MustPack(wire.KindBye, wire.HomeBye{Closed: s.end.Load() == closed})
	for _, conn := range conns {
		conn.Post(bye...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	for _, conn := range conns {
		conn.Flush(ctx)
		conn.Close()
	}
}

// LostError reports a home that ended without being closed, or cannot be reached.
type LostError struct {
	Ref Ref
	Err error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("fiber: %s, the home of an object in use here, cannot be reached: %v", e.Ref.Process, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Certain says whether the home has surely ended: it or its parent said so, or nothing
// listens at its endpoint any more. Otherwise another try may reach it.
func (e *LostError) Certain() bool {
	return errors.Is(e.Err, errOver) || errors.Is(e.Err, wire.ErrOver) || errors.Is(e.Err, syscall.ECONNREFUSED)
}

// ErrEnded reports a home that the user has closed, and ErrGone an object that
// no longer exists in its home.
var (
	ErrEnded = errors.New("fiber: the process in which the object lived was closed")
	ErrGone  = errors.New("fiber: the object no longer exists")
)
