package home

import (
	"context"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber/internal/launch"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// remote is the connection to another home.
type remote struct {
	home     *Home
	endpoint string
	ready    chan struct{} // closed when conn or err is set
	conn     *transport.Conn
	err      error

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]chan [][]byte
}

// Fetch gets the frames of another home's object. It blocks until they are
// here, the home says that the object has gone (ErrGone), or ctx ends.
func (h *Home) Fetch(ctx context.Context, ref Ref) ([][]byte, error) {
	r, err := h.remote(ctx, ref.Endpoint)
	if err != nil {
		return nil, err
	}
	reply := make(chan [][]byte, 1)
	r.mu.Lock()
	r.lastID++
	id := r.lastID
	r.waiting[id] = reply
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, id)
		r.mu.Unlock()
	}()
	if err := r.conn.Send(ctx, wire.MustPack(wire.KindFetch, wire.Fetch{ID: id, Object: ref.Object})...); err != nil {
		return nil, err
	}
	select {
	case value := <-reply:
		if value == nil {
			return nil, ErrGone
		}
		return value, nil
	case <-r.conn.Done():
		return nil, fmt.Errorf("fiber: the process that shared the value is gone: %w", r.conn.Err())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remote finds or makes the connection to a home.
func (h *Home) remote(ctx context.Context, endpoint string) (*remote, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, launch.ErrShutdown
	}
	r := h.remotes[endpoint]
	if r == nil {
		r = &remote{home: h, endpoint: endpoint, ready: make(chan struct{}), waiting: map[uint64]chan [][]byte{}}
		h.remotes[endpoint] = r
		h.running.Add(1)
		go r.run()
	}
	h.mu.Unlock()
	select {
	case <-r.ready:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run dials and then reads until the connection ends.
func (r *remote) run() {
	h := r.home
	defer h.running.Done()
	conn, err := transport.Dial(context.Background(), r.endpoint, h.node.Credentials, h.node.TransportOptions(true))
	h.mu.Lock()
	if err == nil && h.closed {
		conn.Close()
	}
	r.conn, r.err = conn, err
	if err != nil {
		delete(h.remotes, r.endpoint)
	}
	h.mu.Unlock()
	close(r.ready)
	if err != nil {
		return
	}
	for {
		frames, err := conn.Recv()
		if err != nil {
			break
		}
		var answer wire.Fetch
		if wire.Unpack(frames, &answer) != nil {
			break
		}
		switch wire.KindOf(frames) {
		case wire.KindDropped:
			h.dropped(Ref{r.endpoint, answer.Object})
		case wire.KindObject:
			r.mu.Lock()
			reply := r.waiting[answer.ID]
			r.mu.Unlock()
			if reply == nil {
				continue
			}
			if !answer.Found {
				reply <- nil
				continue
			}
			reply <- frames[1:]
		}
	}
	conn.Close()
	h.mu.Lock()
	delete(h.remotes, r.endpoint)
	h.mu.Unlock()
	h.dropped(Ref{Endpoint: r.endpoint})
}
