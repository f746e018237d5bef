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
	Left(p *Peer, died bool)
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

// Home is this process's objects, who uses them, and its own use of others'.
type Home struct {
	opts Options
	self *Peer

	dials    context.Context // to others' homes; ends with Close
	endDials context.CancelFunc

	lastUser atomic.Pointer[Peer] // whose message came last
	end      atomic.Int32

	opening sync.Mutex // held while the listener is opened

	mu       sync.Mutex
	closed   bool
	listener *transport.Listener
	endpoint string // its
	lastID   uint64
	objects  map[uint64]*entry
	peers    map[*Peer]struct{}
	remotes  map[string]*remote
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
	holders map[*Peer]struct{}
	lapse   *time.Timer // runs while nobody holds it
}

// New makes a home. Its process tells others where it is found: see Endpoint.
func New(opts Options) *Home {
	h := &Home{opts: opts, objects: map[uint64]*entry{}, peers: map[*Peer]struct{}{}, remotes: map[string]*remote{},
		held: map[Ref]int{}, uses: map[string]int{}, ended: map[string]error{}, watchers: map[Ref][]*watcher{}}
	h.dials, h.endDials = context.WithCancel(context.Background())
	h.self = &Peer{Name: opts.Name, home: h, requests: map[uint64]*Request{}, untaken: map[uint64][]func(){}, held: map[uint64]*entry{}}
	return h
}

// Self is this process as one of those that use its objects.
func (h *Home) Self() *Peer { return h.self }

// Make gives an object its name. A pinned one lives until Remove; others are
// dropped when nobody has held them for a while.
func (h *Home) Make(o Object, pinned bool) (Ref, error) {
	endpoint, err := h.Endpoint()
	if err != nil {
		return Ref{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return Ref{}, h.opts.Ended
	}
	h.lastID++
	e := &entry{Object: o, id: h.lastID, pinned: pinned, holders: map[*Peer]struct{}{}}
	h.objects[e.id] = e
	h.leave(e)
	return Ref{endpoint, e.id, h.opts.Name, os.Getpid()}, nil
}

// Endpoint is where this home is found; it is opened if it was not.
func (h *Home) Endpoint() (string, error) {
	h.opening.Lock()
	defer h.opening.Unlock()
	switch endpoint, closed := h.found(); {
	case endpoint != "":
		return endpoint, nil
	case closed:
		return "", h.opts.Ended
	}
	l, err := h.opts.Listen()
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		l.Close()
		return "", h.opts.Ended
	}
	h.listener, h.endpoint = l, l.Endpoint()
	h.running.Add(1)
	go h.accept(l)
	return h.endpoint, nil
}

// Remove drops an object at once.
func (h *Home) Remove(id uint64) {
	h.mu.Lock()
	e := h.objects[id]
	h.forget(e)
	h.mu.Unlock()
	if e != nil {
		e.Drop()
	}
}

// forget takes an object out. The lock is held.
func (h *Home) forget(e *entry) {
	if e == nil {
		return
	}
	delete(h.objects, e.id)
	for p := range e.holders {
		delete(p.held, e.id)
	}
	if e.lapse != nil {
		e.lapse.Stop()
	}
}

// hold makes a process one of an object's holders. The lock is held.
func (h *Home) hold(p *Peer, id uint64) {
	e := h.objects[id]
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
func (h *Home) release(p *Peer, id uint64) *entry {
	e := p.held[id]
	if e == nil {
		return nil
	}
	delete(p.held, id)
	delete(e.holders, p)
	h.leave(e)
	return e
}

// leave has an object lapse that nobody holds. The lock is held.
func (h *Home) leave(e *entry) {
	if len(e.holders) > 0 || e.pinned || e.lapse != nil {
		return
	}
	e.lapse = time.AfterFunc(h.Within(Grace, 0.5), func() {
		h.mu.Lock()
		gone := len(e.holders) == 0 && h.objects[e.id] == e
		if gone {
			h.forget(e)
		}
		h.mu.Unlock()
		if gone {
			e.Drop()
		}
	})
}

// Within is a time, or that part of heartbeat_timeout if it is less: what nobody
// claims ends within heartbeat_timeout.
func (h *Home) Within(d time.Duration, part float64) time.Duration {
	if silence := h.opts.HeartbeatTimeout; silence > 0 {
		return min(d, time.Duration(part*float64(silence)))
	}
	return d
}

// mine finds an object of this home. The lock is held.
func (h *Home) mine(ref Ref) (e *entry, mine bool) {
	if h.endpoint == "" || ref.Endpoint != h.endpoint {
		return nil, false
	}
	return h.objects[ref.Object], true
}

// Local gives an object of this home, nil when it is another's or gone.
func (h *Home) Local(ref Ref) Object {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, _ := h.mine(ref); e != nil {
		return e.Object
	}
	return nil
}

// found is where this home is found, "" when it was not opened.
func (h *Home) found() (endpoint string, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endpoint, h.closed
}

func (h *Home) accept(l *transport.Listener) {
	defer h.running.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			h.dismiss(conn)
			continue // until the listener is closed
		}
		p := &Peer{home: h, conn: conn, requests: map[uint64]*Request{}, untaken: map[uint64][]func(){}, held: map[uint64]*entry{}}
		h.peers[p] = struct{}{}
		h.running.Add(1)
		h.mu.Unlock()
		go turn.New(conn, p.read, p.gone).Read()
	}
}

// dismiss says bye to who comes too late.
func (h *Home) dismiss(conn *transport.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	conn.Post(h.bye()...)
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
func (h *Home) Ends(isClosed bool) {
	how := int32(ends)
	if isClosed {
		how = closed
	}
	h.end.CompareAndSwap(0, how)
}

func (h *Home) bye() [][]byte {
	return wire.MustPack(wire.KindBye, wire.HomeBye{Closed: h.end.Load() == closed})
}

// Close tells all users of this home's objects that it ends, drops the
// objects, and ends all connections. The root closes its home when no other
// process of the run is left.
func (h *Home) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	listener, entries, peers, remotes := h.listener, h.objects, h.peers, h.remotes
	h.objects, h.peers, h.remotes = map[uint64]*entry{}, map[*Peer]struct{}{}, map[string]*remote{}
	for _, e := range entries {
		if e.lapse != nil {
			e.lapse.Stop()
		}
	}
	h.mu.Unlock()
	h.Ends(false)
	h.endDials()
	for _, e := range entries {
		e.Drop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	bye := h.bye()
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
	h.running.Wait()
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
