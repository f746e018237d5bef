package object

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// answer is an object's answer, or the reason why there is none.
type answer struct {
	said
	err  error
	keep any // for its values: see Value.Keeping
}

func newAnswer(code byte, says said) answer {
	switch code {
	case fine:
		return answer{said: says}
	case Gone:
		return answer{err: ErrGone}
	case Closed:
		return answer{err: ErrEnded}
	}
	return answer{err: &Refusal{code, string(says.frames[0])}}
}

// Pending is a request of this process that waits for its answer.
type Pending struct {
	id       uint64
	object   uint64
	client   *client
	done     func(answer) // is told the answer; if nil, answered is
	answered chan answer
	insists  bool // the request is queued, whatever becomes of the caller

	deadline time.Time // when GiveUp follows for sure, zero if it may not

	settled atomic.Bool
	left    atomic.Bool // the caller waits no longer: discard takes the answer
	late    func(answer)
}

func (p *Pending) settle(a answer) {
	if p.done != nil {
		p.done(a)
	} else if p.answered <- a; p.left.Load() {
		if p.client.own() {
			go p.discard() // the object's lock may be held
		} else {
			p.discard()
		}
	}
	p.settled.Store(true)
}

// leave passes the answer to late when it comes, or at once if it has come.
func (p *Pending) leave(late func(answer)) {
	p.late = late
	p.left.Store(true)
	p.discard()
}

func (p *Pending) discard() {
	select {
	case a := <-p.answered:
		p.late(a)
	default:
	}
}

// Help is for a caller that waits for the answer: it may read it itself, until ctx
// ends; see turn.Reader. The caller must not hold a lock that a watcher, or the
// done of Start, takes.
func (p *Pending) Help(ctx context.Context) {
	if r := p.client.reader; r != nil {
		r.Help(ctx, p.settled.Load)
	}
}

// GiveUp tells the object that the answer is not waited for any more. The answer
// still comes, most often as a Refusal with code GivenUp or LetGo: see Settled.
func (p *Pending) GiveUp() {
	p.client.post(wire.KindGiveUp, wire.Request{ID: p.id, Object: p.object}, said{})
}

// message makes a request of what q points to; the error is a
// *transport.SizeError if it does not fit a message. A request of this process to
// itself gets copies of large frames, which may be memory of the user's.
func (r *client) message(ref Ref, op byte, q any) (m wire.Request, says said, err error) {
	size := overhead
	if r.own() {
		says.plain = q
		eachValue(reflect.ValueOf(q).Elem(), func(v *Value) {
			size += v.Size()
			*v = v.private()
		})
	} else {
		says.frames = Pack(q)
		size += codec.Size(says.frames)
	}
	if limit := r.home.opts.MaxMessage; int64(size) > limit {
		err = &transport.SizeError{Size: int64(size), Limit: limit}
	}
	return wire.Request{Object: ref.Object, Op: op}, says, err
}

// send sends a request. If p is nil, no answer is wanted.
func (s *Server) send(ctx context.Context, ref Ref, op byte, q any, p *Pending) error {
	r, err := s.reach(ctx, ref)
	if err != nil {
		return err
	}
	m, says, err := r.message(ref, op, q)
	if err != nil {
		return err
	}
	return r.send(ctx, m, says, p)
}

// unpacked decodes an answer.
func unpacked[A any](answered answer) (a A, err error) {
	if answered.err != nil {
		return a, answered.err
	}
	a, err = opened[A](answered.said)
	if answered.keep != nil {
		eachValue(reflect.ValueOf(&a).Elem(), func(v *Value) { *v = v.Keeping(answered.keep) })
	}
	return a, err
}

// Start sends a request to an object. It blocks until the object's home is
// reached and the request is in the socket, or until ctx ends; if a part of the
// request has left by then, Start succeeds, and the rest leaves without it. done
// is called once with the answer, by a goroutine that reads a connection, and must
// not block; if Start returns an error, done is not called. Unless a caller waits
// in Help, the answer may be noticed some milliseconds late.
//
// Errors, here and of answers: ErrGone, ErrEnded, *LostError, *Refusal,
// *transport.SizeError, or the ctx's.
func Start[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q, done func(A, error)) (*Pending, error) {
	p := &Pending{done: func(a answer) { done(unpacked[A](a)) }}
	return p, s.send(ctx, ref, byte(op), &q, p)
}

// Tell sends a request that has no answer. When Tell returns, the request is in
// the socket, or the connection has ended. If ctx ends first, Tell returns the
// ctx's error: nothing was sent, unless the error is transport.ErrUnknownOutcome,
// too.
func Tell[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q) error {
	return s.send(ctx, ref, byte(op), &q, nil)
}

// Post is Tell without waiting: the request is queued, or dropped if its home is
// not connected. It reports which.
func Post[Q, A any](s *Server, ref Ref, op Op[Q, A], q Q) (queued bool) {
	s.mu.Lock()
	r := s.remotes[ref.Endpoint]
	s.mu.Unlock()
	if r != nil {
		if m, says, err := r.message(ref, byte(op), &q); err == nil {
			return r.post(wire.KindRequest, m, says)
		}
	}
	return false
}

// Ask sends a request to an object and waits for its answer. If ctx ends first,
// Ask tells the object. An answer that comes nevertheless is passed to late, which
// must not block, and Ask returns the ctx's error at once. If late is nil, Ask
// waits for the answer up to SettleTime longer, so that the caller learns whether
// the request was carried out; if it does not, the error is
// transport.ErrUnknownOutcome, too. For the locks that the caller must not hold,
// see Pending.Help.
func Ask[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q, late func(A)) (A, error) {
	a, _, err := TryAsk(ctx, s, ref, op, q, late)
	return a, err
}

// TryAsk is Ask, and says whether the object hears of the request, unless the
// connection ends.
func TryAsk[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q, late func(A)) (none A, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return none, false, err
	}
	p := &Pending{answered: make(chan answer, 1)}
	p.deadline, _ = ctx.Deadline()
	if err := s.send(ctx, ref, byte(op), &q, p); err != nil {
		return none, false, err
	}
	a, err := answered(ctx, p, late)
	return a, true, err
}

// answered waits for the answer to a request, as Ask does.
func answered[A any](ctx context.Context, p *Pending, late func(A)) (none A, err error) {
	a, err := turn.Wait(ctx, p.client.reader, p.answered)
	if err == nil {
		return unpacked[A](a)
	}
	if late != nil {
		select {
		case a := <-p.answered: // it came just now
			return unpacked[A](a)
		default:
		}
	}
	p.GiveUp()
	if late != nil {
		p.leave(func(a answer) {
			if a, err := unpacked[A](a); err == nil {
				late(a)
			}
		})
		return none, ctx.Err()
	}
	return settled[A](ctx, p)
}

// settled waits up to SettleTime for the answer to a caller whose ctx has ended.
func settled[A any](ctx context.Context, p *Pending) (none A, err error) {
	select {
	case a := <-p.answered:
		a.err = Settled(ctx, a.err)
		return unpacked[A](a)
	case <-time.After(SettleTime):
		return none, UnknownOutcome(ctx.Err())
	}
}

// Insist sends a request that is carried out even if ctx has ended, unless its
// home, or the connection to it, ends before. It waits for the answer as Ask does.
func Insist[Q, A any](ctx context.Context, s *Server, ref Ref, op Op[Q, A], q Q) (none A, err error) {
	p := &Pending{answered: make(chan answer, 1)}
	p.insists = true
	reach, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(SettleTime, cancel) })()
	if err := s.send(reach, ref, byte(op), &q, p); err != nil {
		if err == reach.Err() {
			err = ctx.Err()
		}
		return none, err
	}
	a, err := turn.Wait(ctx, p.client.reader, p.answered)
	if err != nil {
		return settled[A](ctx, p)
	}
	return unpacked[A](a)
}

// Settled returns the error of a caller whose ctx has ended, from the answer to a
// request that was given up.
func Settled(ctx context.Context, err error) error {
	if refusal, ok := err.(*Refusal); ok {
		switch refusal.Code {
		case GivenUp:
			return ctx.Err()
		case LetGo:
			return UnknownOutcome(ctx.Err())
		}
	}
	return err
}

// UnknownOutcome is the error of a caller that has stopped waiting, with the error of
// its context, before it was known what became of its request.
func UnknownOutcome(why error) error {
	return fmt.Errorf("%w: %w", why, transport.ErrUnknownOutcome)
}

// SettleTime is how long a caller whose ctx has ended waits for the outcome.
const SettleTime = time.Second

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
	if s.mine(ref) {
		s.hold(s.self, ref.Object)
		return
	}
	r := s.remote(ref)
	r.holds++
	r.post(wire.KindHold, wire.Request{Object: ref.Object}, said{})
}

// Release takes a Hold back.
func (s *Server) Release(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[ref]--; s.held[ref] > 0 || s.closed {
		return
	}
	delete(s.held, ref)
	s.uses[ref.Endpoint]--
	if s.uses[ref.Endpoint] == 0 {
		delete(s.uses, ref.Endpoint)
		delete(s.ended, ref.Endpoint)
	}
	if s.mine(ref) {
		if e := s.release(s.self, ref.Object); e != nil {
			s.running.Go(func() { e.Left(s.self, false) }) // the caller may hold the object's lock
		}
	} else if r := s.remotes[ref.Endpoint]; r != nil {
		r.post(wire.KindRelease, wire.Request{Object: ref.Object}, said{})
	}
}

// watcher receives an object's notices.
type watcher func(notice *Request)

// Watch calls watch for each notice of an object to its holders, until stop is
// called. watch must neither block nor send requests to the object.
func (s *Server) Watch(ref Ref, watch watcher) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch(ref, watch)
}

// watch is Watch. The lock is held.
func (s *Server) watch(ref Ref, watch watcher) (stop func()) {
	w := &watch
	key := Ref{Endpoint: ref.Endpoint, Object: ref.Object}
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
func (s *Server) noticed(endpoint string, object uint64, notice *Request) {
	s.mu.Lock()
	watchers := s.watchers[Ref{Endpoint: endpoint, Object: object}] // replaced, not changed
	s.mu.Unlock()
	for _, w := range watchers {
		(*w)(notice)
	}
}

// Wait waits until changed is closed or ctx ends. It is for callers that wait for a
// notice of an object. They must not hold a lock that a watcher takes.
func (s *Server) Wait(ctx context.Context, ref Ref, changed <-chan struct{}) {
	var reader *turn.Reader
	s.mu.Lock()
	r := s.remotes[ref.Endpoint]
	s.mu.Unlock()
	if r != nil && r.connected() != nil {
		reader = r.reader
	}
	turn.Wait(ctx, reader, changed)
}
