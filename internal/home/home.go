// Package home serves what a process has made to the other processes of its
// run, and fetches what they have made.
//
// Everything shared has a home: the process that made it. Whoever needs it
// dials the home's endpoint, which is opened when the first thing is shared.
package home

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/fiber-go/fiber/internal/launch"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ErrGone is what fetching an object gives that its home does not have (any
// more).
var ErrGone = errors.New("fiber: the shared value is closed")

// Ref names an object in the run.
type Ref struct {
	Endpoint string // of its home
	Object   uint64
}

// Home is this process's objects and its connections to other homes.
type Home struct {
	node *launch.Node

	mu       sync.Mutex
	closed   bool
	listener *transport.Listener
	lastID   uint64
	objects  map[uint64]*object
	serving  map[*transport.Conn]struct{}
	remotes  map[string]*remote
	dropped  func(Ref)
	running  sync.WaitGroup
}

// object is bytes that others may fetch.
type object struct {
	value   [][]byte
	holders map[*transport.Conn]struct{}
}

// New makes a home; dropped is told of objects fetched from other homes that
// have gone there.
func New(node *launch.Node, dropped func(Ref)) *Home {
	return &Home{node: node, dropped: dropped, objects: map[uint64]*object{},
		serving: map[*transport.Conn]struct{}{}, remotes: map[string]*remote{}}
}

// Keep makes an object of the frames of a value.
func (h *Home) Keep(value [][]byte) (Ref, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return Ref{}, launch.ErrShutdown
	}
	if h.listener == nil {
		if h.node.Parent == nil {
			sweep(h.node.Config.RuntimeDir)
		}
		if err := os.Mkdir(h.directory(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return Ref{}, err
		}
		l, err := transport.ListenUnix(h.directory(), h.node.Credentials, h.node.TransportOptions(true))
		if err != nil {
			return Ref{}, err
		}
		h.listener = l
		h.running.Add(1)
		go h.accept(l)
	}
	h.lastID++
	h.objects[h.lastID] = &object{value: value, holders: map[*transport.Conn]struct{}{}}
	return Ref{h.listener.Endpoint(), h.lastID}, nil
}

// directory is the run's, with the sockets of all its processes in it, so
// that the root can clear up after those that were killed.
func (h *Home) directory() string {
	return filepath.Join(h.node.Config.RuntimeDir, "fiber-"+h.node.Run)
}

// Local gives the frames of an object of this home.
func (h *Home) Local(ref Ref) (value [][]byte, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil || ref.Endpoint != h.listener.Endpoint() {
		return nil, false, nil
	}
	o := h.objects[ref.Object]
	if o == nil {
		return nil, true, ErrGone
	}
	return o.value, true, nil
}

// Drop forgets an object of this home, and has those who fetched it do so.
func (h *Home) Drop(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.objects[id]
	delete(h.objects, id)
	if o == nil {
		return
	}
	for conn := range o.holders {
		conn.Post(wire.MustPack(wire.KindDropped, wire.Fetch{Object: id})...)
	}
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
			conn.Close()
			return
		}
		h.serving[conn] = struct{}{}
		h.running.Add(1)
		h.mu.Unlock()
		go h.serve(conn)
	}
}

// serve answers one other process.
func (h *Home) serve(conn *transport.Conn) {
	defer h.running.Done()
	defer func() {
		conn.Close()
		h.mu.Lock()
		delete(h.serving, conn)
		for _, o := range h.objects {
			delete(o.holders, conn)
		}
		h.mu.Unlock()
	}()
	for {
		frames, err := conn.Recv()
		if err != nil {
			return
		}
		var fetch wire.Fetch
		if wire.KindOf(frames) != wire.KindFetch || wire.Unpack(frames, &fetch) != nil {
			return
		}
		h.mu.Lock()
		o := h.objects[fetch.Object]
		fetch.Found = o != nil
		var value [][]byte
		if o != nil {
			o.holders[conn] = struct{}{}
			value = o.value
		}
		// Under the lock, so that the word of its end comes behind it.
		err = conn.Post(wire.MustPack(wire.KindObject, fetch, value...)...)
		h.mu.Unlock()
		if err != nil || conn.Flush(context.Background()) != nil {
			return
		}
	}
}

// Close ends all connections and forgets all objects. The root closes its
// home when no other process of the run is left.
func (h *Home) Close() {
	h.mu.Lock()
	h.closed = true
	listener := h.listener
	for conn := range h.serving {
		conn.Close()
	}
	for _, r := range h.remotes {
		if r.conn != nil {
			r.conn.Close()
		}
	}
	clear(h.objects)
	h.mu.Unlock()
	if listener != nil {
		listener.Close()
	}
	h.running.Wait()
	h.Remove()
}

// Remove removes the run's directory, in the root.
func (h *Home) Remove() {
	if h.node.Parent == nil {
		os.RemoveAll(h.directory())
	}
}
