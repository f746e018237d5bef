package object

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// answer is an object's answer, or the reason why there is none.
type answer struct {
	args  []byte
	value [][]byte
	err   error
}

func newAnswer(code byte, args []byte, value [][]byte) answer {
	switch code {
	case fine:
		return answer{args: args, value: value}
	case Gone:
		return answer{err: ErrGone}
	case Closed:
		return answer{err: ErrEnded}
	}
	return answer{err: &Refusal{code, string(args)}}
}

// pending is a request of this process that waits for its answer.
type pending struct {
	id     uint64
	remote *client  // nil for an object of this home
	local  *Request // for an object of this home
	done   func(answer)

	leads   atomic.Bool // a caller waits that reads the answer itself, if it is its turn
	settled atomic.Bool
}

func (p *pending) settle(a answer) {
	p.done(a)
	p.settled.Store(true)
}

// Pending is a request that Start has sent.
type Pending struct{ p *pending }

// Lead reads what comes from the object's home, if it is the caller's turn,
// until the answer is there, or for a moment when nothing comes. The caller must
// not hold a lock that a watcher, or the done of Start, takes.
func (w Pending) Lead() {
	if p := w.p; p != nil && p.remote != nil {
		p.leads.Store(true)
		p.remote.lead(p.settled.Load)
	}
}

// GiveUp tells the object that the answer is not waited for any more. The answer
// still comes, most often as a Refusal with code GivenUp.
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
	p.remote.post(wire.KindGiveUp, wire.Request{ID: p.id}, nil)
}

// message is a request on its way.
type message struct {
	ref   Ref
	op    byte
	args  []byte
	value [][]byte
}

// message packs a request; the error is a *transport.SizeError if it does not
// fit a message.
func (s *Server) message(ref Ref, op byte, q any) (message, error) {
	m := message{ref: ref, op: op}
	m.args, m.value = pack(q)
	size, limit := int64(codec.Size(m.value))+overhead, s.opts.MaxMessage
	if size > limit {
		return m, &transport.SizeError{Size: size, Limit: limit}
	}
	return m, nil
}

func (m message) pack() wire.Request {
	return wire.Request{Object: m.ref.Object, Op: m.op, Args: m.args}
}

// unpacked decodes an answer.
func unpacked[A any](answered answer) (a A, err error) {
	if answered.err != nil {
		return a, answered.err
	}
	return a, unpackAnswer(answered.args, answered.value, &a)
}

// Start sends a request to an object. It blocks until the object's home is
// reached and the request is in the socket, or until ctx ends. done is called
// once with the answer, by a goroutine that reads a connection, and must not
// block; if Start returns an error, done is not called. Unless a caller waits in
// Lead, the answer may be noticed a millisecond late.
//
// Errors, here and of answers: ErrGone, ErrEnded, *LostError, *Refusal,
// *transport.SizeError, or the ctx's.
func Start[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q, done func(A, error)) (Pending, error) {
	m, err := s.message(ref, byte(op), &q)
	if err != nil {
		return Pending{}, err
	}
	return s.begin(ctx, m, &pending{done: func(a answer) { done(unpacked[A](a)) }})
}

func (s *Server) begin(ctx context.Context, m message, p *pending) (Pending, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Pending{}, s.opts.Ended
	}
	e, mine := s.mine(m.ref)
	s.mu.Unlock()
	if mine {
		if e == nil {
			return Pending{}, ErrGone
		}
		p.local = &Request{Peer: s.self, Op: m.op, Args: m.args, Value: owned(m.value), object: e.Object, local: p}
		s.self.mu.Lock()
		s.self.lastID++
		p.local.id = s.self.lastID
		s.self.requests[p.local.id] = p.local
		s.self.mu.Unlock()
		e.Serve(p.local)
		return Pending{p}, nil
	}
	r, err := s.reach(ctx, m.ref)
	if err != nil {
		return Pending{}, err
	}
	if err := r.send(ctx, m.pack(), m.value, p); err != nil {
		return Pending{}, err
	}
	return Pending{p}, nil
}

// owned copies all frames but the first, which may be parts of values that the
// user goes on to change. It changes value itself.
func owned(value [][]byte) [][]byte {
	for i := 1; i < len(value); i++ {
		value[i] = append(make([]byte, 0, len(value[i])), value[i]...)
	}
	return value
}

// Tell sends a request that has no answer. When Tell returns, the request is in
// the socket, or the connection has ended. If ctx ends before the first byte has
// left, Tell returns the ctx's error, and nothing was sent.
func Tell[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q) error {
	m, err := s.message(ref, byte(op), &q)
	if err != nil {
		return err
	}
	if mine, err := s.serveOwn(m); mine {
		return err
	}
	r, err := s.reach(ctx, ref)
	if err != nil {
		return err
	}
	return r.send(ctx, m.pack(), m.value, nil)
}

// Post is Tell without waiting: the request is queued, or dropped if its home is
// not connected.
func Post[Q, A any](s *Server, ref Ref, op Op[Q, A], q Q) {
	m, err := s.message(ref, byte(op), &q)
	if err != nil {
		return
	}
	if mine, _ := s.serveOwn(m); mine {
		return
	}
	s.mu.Lock()
	r := s.remotes[ref.Endpoint]
	s.mu.Unlock()
	if r != nil {
		r.post(wire.KindRequest, m.pack(), m.value)
	}
}

// serveOwn has an object of this home serve a request that has no answer.
func (s *Server) serveOwn(m message) (mine bool, err error) {
	s.mu.Lock()
	e, mine := s.mine(m.ref)
	s.mu.Unlock()
	switch {
	case !mine:
		return false, nil
	case e == nil:
		return true, ErrGone
	}
	e.Serve(&Request{Peer: s.self, Op: m.op, Args: m.args, Value: owned(m.value), object: e.Object})
	return true, nil
}

// Ask sends a request to an object and waits for its answer. If ctx ends first,
// Ask tells the object and returns the ctx's error at once; an answer that comes
// nevertheless is passed to late, unless that is nil. For the locks that the
// caller must not hold, see Pending.Lead.
func Ask[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q, late func(A)) (a A, err error) {
	return call(ctx, s, ref, op, &q, late, 0)
}

// AskAndSettle is Ask that waits for the answer up to settleTime longer when ctx
// ends, so that the caller learns whether the request was carried out.
func AskAndSettle[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q) (a A, err error) {
	return call(ctx, s, ref, op, &q, nil, settleTime)
}

const settleTime = time.Second

func call[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q *Q, late func(A), wait time.Duration) (none A, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	m, err := s.message(ref, byte(op), q)
	if err != nil {
		return none, err
	}
	answered := make(chan answer, 1)
	w, err := s.begin(ctx, m, &pending{done: func(a answer) { answered <- a }})
	if err != nil {
		return none, err
	}
	w.Lead()
	select {
	case a := <-answered:
		return unpacked[A](a)
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
			return unpacked[A](a)
		case <-timer.C:
		}
		return none, ctx.Err()
	}
	if late != nil {
		go func() {
			if a, err := unpacked[A](<-answered); err == nil {
				late(a)
			}
		}()
	}
	return none, ctx.Err()
}

// Hold keeps an object alive until Release has been called as often as Hold.
func (s *Server) Hold(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.held[ref]++
	if s.held[ref] > 1 {
		return
	}
	s.uses[ref.Endpoint]++
	if _, mine := s.mine(ref); mine {
		s.hold(s.self, ref.Object)
		return
	}
	r := s.remote(ref)
	r.holds++
	r.post(wire.KindHold, wire.Request{Object: ref.Object}, nil)
}

// Release takes a Hold back.
func (s *Server) Release(ref Ref) {
	s.mu.Lock()
	if s.held[ref]--; s.held[ref] > 0 || s.closed {
		s.mu.Unlock()
		return
	}
	delete(s.held, ref)
	s.uses[ref.Endpoint]--
	if s.uses[ref.Endpoint] == 0 {
		delete(s.uses, ref.Endpoint)
		delete(s.ended, ref.Endpoint)
	}
	if _, mine := s.mine(ref); mine {
		if e := s.release(s.self, ref.Object); e != nil {
			s.running.Go(func() { e.Left(s.self, false) }) // the caller may hold the object's lock
		}
		s.mu.Unlock()
		return
	}
	defer s.mu.Unlock()
	if r := s.remotes[ref.Endpoint]; r != nil {
		r.post(wire.KindRelease, wire.Request{Object: ref.Object}, nil)
	}
}

// watcher receives an object's notices.
type watcher struct {
	watch func(op byte, args []byte, value [][]byte)
}

// Watch calls watch for each notice of an object to its holders, until stop is
// called. watch must neither block nor send requests to the object.
func (s *Server) Watch(ref Ref, watch func(op byte, args []byte, value [][]byte)) (stop func()) {
	w := &watcher{watch}
	key := Ref{Endpoint: ref.Endpoint, Object: ref.Object}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[key] = append(slices.Clip(s.watchers[key]), w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := slices.DeleteFunc(slices.Clone(s.watchers[key]), func(other *watcher) bool { return other == w })
		if s.watchers[key] = left; len(left) == 0 {
			delete(s.watchers, key)
		}
	}
}

// noticed passes a notice to those that watch the object.
func (s *Server) noticed(endpoint string, object uint64, op byte, args []byte, value [][]byte) {
	s.mu.Lock()
	watchers := s.watchers[Ref{Endpoint: endpoint, Object: object}] // replaced, not changed
	s.mu.Unlock()
	for _, w := range watchers {
		w.watch(op, args, value)
	}
}

// Await reads what comes from an object's home, if it is the caller's turn,
// until done returns true, or for a moment when nothing comes. It is for callers
// that wait for a notice. They must not hold a lock that a watcher takes.
func (s *Server) Await(ref Ref, done func() bool) {
	s.mu.Lock()
	r := s.remotes[ref.Endpoint]
	s.mu.Unlock()
	if r != nil && r.connected() != nil {
		r.awaited.Store(true)
		r.lead(done)
	}
}
