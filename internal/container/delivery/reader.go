package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Read reads the output of a program to its end, and passes it on. It calls connect for a connection to the sender, and again
// whenever one has broken, until that returns an error, which Read returns. What has been read by then is passed on as well.
func Read(ctx context.Context, connect func(context.Context) (*transport.Conn, error), to backend.Joined) error {
	r := &reader{more: make(chan struct{}, 1)}
	go r.receive(ctx, connect)
	for range r.more {
		for p, ok := r.take(); ok; p, ok = r.take() {
			if p.missing > 0 {
				to.Missing(p.missing, fmt.Sprintf("here: nobody read them for %v", p.away.Round(time.Second)))
			}
			to.Write(p.bytes)
			r.pass(p)
		}
	}
	return r.err
}

// reader is a call of Read.
type reader struct {
	more chan struct{} // holds a token when something may have come; closed at the end
	err  error         // set before that

	mu       sync.Mutex
	conn     *transport.Conn // nil if there is none
	queue    []received      // that is not taken yet
	held     int             // bytes that have not been passed on
	received int64           // the position up to which the stream was received
	passed   int64           // and up to which it was passed on
}

// received is a piece of the stream.
type received struct {
	missing int64 // bytes before it
	away    time.Duration
	bytes   []byte
}

// take returns the next piece to pass on.
func (r *reader) take() (p received, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue = nil
		return p, false
	}
	p, r.queue = r.queue[0], r.queue[1:]
	return p, true
}

// pass tells the sender that a piece has been passed on.
func (r *reader) pass(p received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed += p.missing + int64(len(p.bytes))
	r.held -= len(p.bytes)
	if r.conn != nil {
		r.conn.Post(wire.MustPack(wire.KindReading, wire.Reading{Passed: r.passed})...)
	}
}

// receive receives the stream to its end, or an error of connect.
func (r *reader) receive(ctx context.Context, connect func(context.Context) (*transport.Conn, error)) {
	defer close(r.more)
	for {
		conn, err := connect(ctx)
		if err != nil {
			r.err = err
			return
		}
		if r.from(ctx, conn) {
			return
		}
	}
}

// from receives from a connection until it breaks. It reports whether the end of the stream has come.
func (r *reader) from(ctx context.Context, conn *transport.Conn) (whole bool) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.LimitMessages(maxMessage)
	r.mu.Lock()
	conn.Post(wire.MustPack(wire.KindReading, wire.Reading{From: r.received, Passed: r.passed})...)
	r.conn = conn
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.conn = nil
		r.mu.Unlock()
		conn.Close()
	}()
	for {
		frames, err := conn.Recv()
		if err != nil || whole {
			return whole
		}
		if whole, err = r.add(frames); err != nil {
			return false
		}
		if whole { // the sender closes the connection when it has heard that
			conn.Post(wire.MustPack(wire.KindReading, wire.Reading{Passed: r.received + 1})...)
		}
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// add adds a message to the queue, and reports whether the stream ends there.
func (r *reader) add(frames [][]byte) (last bool, err error) {
	var out wire.Output
	if wire.KindOf(frames) != wire.KindOutput || len(frames) != 2 {
		return false, wire.ErrMalformed
	}
	if err := wire.Unpack(frames[:1], &out); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := received{missing: out.At - r.received, away: out.Away, bytes: frames[1]}
	if r.held += len(p.bytes); p.missing < 0 || r.held > window+rest+maxMessage {
		return false, wire.ErrMalformed
	}
	r.received = out.At + int64(len(p.bytes))
	r.queue = append(r.queue, p)
	return out.Last, nil
}
