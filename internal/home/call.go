package home

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/launch"
	"github.com/fiber-go/fiber/internal/wire"
)

// Answer is what an object answered.
type Answer struct {
	Args  []byte
	Value [][]byte
}

// answer is an Answer or why there is none.
type answer struct {
	Answer
	err error
}

func newAnswer(code byte, args []byte, value [][]byte) answer {
	switch code {
	case fine:
		return answer{Answer: Answer{args, value}}
	case Gone:
		return answer{err: ErrGone}
	case Closed:
		return answer{err: ErrEnded}
	}
	return answer{err: &Refusal{code, string(args)}}
}

// pending is a request of this process on its way.
type pending struct {
	id     uint64
	remote *remote  // nil for an object of this home
	local  *Request // for an object of this home
	done   func(Answer, error)

	leads   atomic.Bool // somebody waits who reads the answer himself, if it is his turn
	settled atomic.Bool
}

func (p *pending) settle(a answer) {
	p.done(a.Answer, a.err)
	p.settled.Store(true)
}

// Pending is a request that was begun.
type Pending struct{ p *pending }

// Lead reads what comes from the object's home, if it is the caller's turn,
// until the answer is there, or for a moment when nothing comes. The caller holds
// no lock that a watcher, or what was given to Begin, takes.
func (w Pending) Lead() {
	if p := w.p; p != nil && p.remote != nil {
		p.leads.Store(true)
		p.remote.lead(p.settled.Load)
	}
}

// GiveUp tells the object that nobody waits for the answer any more. It is
// still given, most often as a Refusal with code GivenUp.
func (w Pending) GiveUp() {
	p := w.p
	if p == nil {
		return
	}
	if p.local != nil {
		if p.local.Wanted() {
			p.local.object.GiveUp(p.local)
		}
		return
	}
	if conn := p.remote.connected(); conn != nil {
		m := wire.Request{ID: p.id}
		conn.Post(m.Pack(wire.KindGiveUp, nil)...)
	}
}

// Begin sends a request to an object. done is called once with its answer, by
// a goroutine that reads a connection: it must not block. When Begin gives an
// error, done is not called. It returns when the request is in the socket and
// blocks, as long as ctx lasts, until the object's home is reached. The answer
// may be noticed a millisecond late when nobody calls Lead.
//
// Errors, here and of answers: ErrGone, ErrEnded, *LostError, *Refusal,
// *transport.SizeError, or the ctx's.
func (h *Home) Begin(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte, done func(Answer, error)) (Pending, error) {
	return h.begin(ctx, ref, op, args, value, &pending{done: done})
}

func (h *Home) begin(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte, p *pending) (Pending, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return Pending{}, launch.ErrShutdown
	}
	e, mine := h.mine(ref)
	h.mu.Unlock()
	if mine {
		if e == nil {
			return Pending{}, ErrGone
		}
		p.local = &Request{Peer: h.self, Op: op, Args: args, Value: owned(value), object: e.Object, local: p}
		h.self.mu.Lock()
		h.self.lastID++
		p.local.id = h.self.lastID
		h.self.requests[p.local.id] = p.local
		h.self.mu.Unlock()
		e.Serve(p.local)
		return Pending{p}, nil
	}
	r, err := h.reach(ctx, ref)
	if err != nil {
		return Pending{}, err
	}
	if err := r.send(ctx, wire.Request{Object: ref.Object, Op: op, Args: args}, value, p); err != nil {
		return Pending{}, err
	}
	return Pending{p}, nil
}

// owned is a value whose frames do not change: those behind the first may be
// parts of what the user has.
func owned(value [][]byte) [][]byte {
	for i := 1; i < len(value); i++ {
		value[i] = append(make([]byte, 0, len(value[i])), value[i]...)
	}
	return value
}

// Tell sends a request that has no answer; it is in the socket, or the
// connection has ended, when Tell returns.
func (h *Home) Tell(ref Ref, op byte, args []byte) error {
	return h.Send(context.Background(), ref, op, args, nil)
}

// Send is Tell with a value. When ctx ends before the first byte has left, the
// error is its, and nothing was sent.
func (h *Home) Send(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte) error {
	if mine, err := h.serveOwn(ref, op, args, value); mine {
		return err
	}
	r, err := h.reach(ctx, ref)
	if err != nil {
		return err
	}
	return r.send(ctx, wire.Request{Object: ref.Object, Op: op, Args: args}, value, nil)
}

// Post is Tell that never waits: the request is queued, or, when its home is
// not connected, dropped.
func (h *Home) Post(ref Ref, op byte, args []byte) {
	if mine, _ := h.serveOwn(ref, op, args, nil); mine {
		return
	}
	h.mu.Lock()
	r := h.remotes[ref.Endpoint]
	h.mu.Unlock()
	if r == nil {
		return
	}
	if conn := r.connected(); conn != nil {
		m := wire.Request{Object: ref.Object, Op: op, Args: args}
		conn.Post(m.Pack(wire.KindRequest, nil)...)
	}
}

// serveOwn has an object of this home serve a request that has no answer.
func (h *Home) serveOwn(ref Ref, op byte, args []byte, value [][]byte) (mine bool, err error) {
	h.mu.Lock()
	e, mine := h.mine(ref)
	h.mu.Unlock()
	switch {
	case !mine:
		return false, nil
	case e == nil:
		return true, ErrGone
	}
	e.Serve(&Request{Peer: h.self, Op: op, Args: args, Value: owned(value), object: e.Object})
	return true, nil
}

// Call sends a request to an object and waits for its answer, or until ctx
// ends: then it tells the object and returns at once. late, unless nil, is
// given an answer that comes nevertheless. See Pending.Lead for what the caller
// may not hold.
func (h *Home) Call(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte, late func(Answer)) (Answer, error) {
	return h.call(ctx, ref, op, args, value, late, 0)
}

// Settle is Call, but when ctx ends it waits for the answer for another
// moment, so that the caller knows whether what it asked for was done.
func (h *Home) Settle(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte) (Answer, error) {
	return h.call(ctx, ref, op, args, value, nil, settleTime)
}

const settleTime = time.Second

func (h *Home) call(ctx context.Context, ref Ref, op byte, args []byte, value [][]byte, late func(Answer), wait time.Duration) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	answered := make(chan answer, 1)
	w, err := h.begin(ctx, ref, op, args, value, &pending{done: func(a Answer, err error) { answered <- answer{a, err} }})
	if err != nil {
		return Answer{}, err
	}
	w.Lead()
	select {
	case a := <-answered:
		return a.Answer, a.err
	case <-ctx.Done():
	}
	w.GiveUp()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case a := <-answered:
			if refusal, ok := a.err.(*Refusal); ok && refusal.Code == GivenUp {
				a.err = ctx.Err()
			}
			return a.Answer, a.err
		case <-timer.C:
		}
		return Answer{}, ctx.Err()
	}
	if late != nil {
		go func() {
			if a := <-answered; a.err == nil {
				late(a.Answer)
			}
		}()
	}
	return Answer{}, ctx.Err()
}

// Hold keeps an object alive until Release has been called as often.
func (h *Home) Hold(ref Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.held[ref]++
	if h.held[ref] > 1 {
		return
	}
	h.uses[ref.Endpoint]++
	if _, mine := h.mine(ref); mine {
		h.hold(h.self, ref.Object)
		return
	}
	r := h.remote(ref)
	if conn := r.connected(); conn != nil {
		m := wire.Request{Object: ref.Object}
		conn.Post(m.Pack(wire.KindHold, nil)...)
	}
}

// Release takes a Hold back.
func (h *Home) Release(ref Ref) {
	h.mu.Lock()
	if h.held[ref]--; h.held[ref] > 0 || h.closed {
		h.mu.Unlock()
		return
	}
	delete(h.held, ref)
	h.uses[ref.Endpoint]--
	if h.uses[ref.Endpoint] == 0 {
		delete(h.uses, ref.Endpoint)
		delete(h.ended, ref.Endpoint)
	}
	if _, mine := h.mine(ref); mine {
		if e := h.release(h.self, ref.Object); e != nil {
			h.running.Go(func() { e.Left(h.self, false) }) // who releases may hold the object's lock
		}
		h.mu.Unlock()
		return
	}
	defer h.mu.Unlock()
	if r := h.remotes[ref.Endpoint]; r != nil {
		if conn := r.connected(); conn != nil {
			m := wire.Request{Object: ref.Object}
			conn.Post(m.Pack(wire.KindRelease, nil)...)
		}
	}
}

// Watch has what an object notifies its holders of told to watch, which must
// not block, nor ask anything of the object before it has returned; nil ends
// that.
func (h *Home) Watch(ref Ref, watch func(op byte, args []byte, value [][]byte)) {
	ref.Process, ref.PID = "", 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if watch == nil {
		delete(h.watchers, ref)
		return
	}
	h.watchers[ref] = watch
}

// Await reads what comes from an object's home, if it is the caller's turn,
// until done says so, or for a moment when nothing comes. It is for who waits for
// a notice, and holds no lock that a watcher takes.
func (h *Home) Await(ref Ref, done func() bool) {
	h.mu.Lock()
	r := h.remotes[ref.Endpoint]
	h.mu.Unlock()
	if r != nil && r.connected() != nil {
		r.awaited.Store(true)
		r.lead(done)
	}
}

// watcher finds who watches an object. The lock is held.
func (h *Home) watcher(endpoint string, object uint64) func(byte, []byte, [][]byte) {
	return h.watchers[Ref{Endpoint: endpoint, Object: object}]
}
