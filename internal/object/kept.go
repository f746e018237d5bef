package object

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/shm"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a kept value.
const (
	fetch   Op[fetching, fetched] = iota
	Discard Op[None, None]        = iota
)

// NoticeDropped tells the processes that keep a copy of an object that it
// exists no longer.
const NoticeDropped = 0xfe

// fetching asks for a value.
type fetching struct {
	near bool // a segment of the home's machine will do
	look bool // only whether it is there
}

// Append appends the packed request to b.
func (q *fetching) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return append(b, bit(q.near)|bit(q.look)<<1), frames
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// Read takes a packed request.
func (q *fetching) Read(in *wire.Reader) {
	bits := in.Uvarint()
	q.near, q.look = bits&1 != 0, bits&2 != 0
}

// fetched is a value, or where it is.
type fetched struct {
	value   Value
	segment *shm.Segment
	layout  *layout // of a value that goes in pieces
	at      Ref     // in another process, unless it is zero
}

// Append appends the packed answer to b and frames.
func (a *fetched) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	if b = a.at.Append(b); a.at != (Ref{}) {
		return b, frames
	}
	switch {
	case a.segment != nil:
		b = appendSizes(append(b, isSegment), a.segment.Sizes)
		b = wire.AppendString(wire.AppendString(b, a.segment.Key), a.segment.Socket)
	case a.layout != nil:
		b = appendSizes(append(b, isLayout), a.layout.sizes)
		return wire.AppendPart(b, frames, a.layout.hashes)
	default:
		return a.value.Append(append(b, isValue), frames)
	}
	return b, frames
}

// What a fetched is.
const (
	isValue = iota
	isSegment
	isLayout
)

func appendSizes(b []byte, sizes []int) []byte {
	b = wire.AppendUvarint(b, uint64(len(sizes)))
	for _, n := range sizes {
		b = wire.AppendUvarint(b, uint64(n))
	}
	return b
}

func takeSizes(in *wire.Reader) (sizes []int) {
	for n := in.Count(); len(sizes) < n && in.Err == nil; {
		sizes = append(sizes, in.Int())
	}
	return sizes
}

// Read takes a packed answer.
func (a *fetched) Read(in *wire.Reader) {
	if a.at.take(in); a.at != (Ref{}) {
		return
	}
	switch in.Uvarint() {
	case isSegment:
		a.segment = &shm.Segment{Sizes: takeSizes(in), Key: in.String(), Socket: in.String()}
	case isLayout:
		a.layout = &layout{takeSizes(in), in.Part()}
	default:
		a.value.Read(in)
	}
}

// kept is an object that only holds a value.
type kept struct {
	home     *Server
	value    Value // what it names is held
	segments *shm.Store
	segment  *shm.Segment // where processes of this machine find it; nil if they do not
	spread   *spread      // to other machines; nil if the value is small
}

// segmentMin is how many bytes of a value are shared by the processes of a machine.
const segmentMin = 64 << 10

// Keep makes an object of a value of these frames, which it copies, and holds the objects that it names. Whoever has fetched
// it gets NoticeDropped when it goes, whether it holds the object or not. In another process than the root, the object lives until
// List has failed, or the value that List has listed goes. The error is a *shm.FullError if there is no room for it.
func (s *Server) Keep(ctx context.Context, frames [][]byte, refs ...Ref) (Ref, error) {
	v, err := s.keep(ctx, frames, refs)
	if err != nil {
		return Ref{}, err
	}
	ref, err := s.Make(v, s.opts.Catalog != nil)
	if err != nil {
		v.Drop()
	}
	return ref, err
}

// keep copies the frames of a value that names these objects.
func (s *Server) keep(ctx context.Context, frames [][]byte, refs []Ref) (kept, error) {
	v := kept{home: s, segments: s.opts.Segments}
	if codec.Size(frames) >= segmentMin {
		segment, err := v.segments.Add(ctx, frames)
		if full := (*shm.FullError)(nil); errors.As(err, &full) {
			return v, err
		}
		if err == nil {
			if own, err := v.segments.Open(ctx, segment); err == nil {
				v.value, v.segment = Encoded(own, refs...), segment
			} else {
				v.segments.Remove(segment)
			}
		}
	}
	if v.segment == nil {
		v.value = Encoded(frames, refs...).Private()
	}
	v.spread = spreadOf(frames)
	s.HoldRefs(v.value)
	if err := ctx.Err(); err != nil { // the copy may have taken long
		v.Drop()
		return v, err
	}
	return v, nil
}

// Copy is a kept value that was fetched.
type Copy struct {
	Frames [][]byte
	Mapped bool // it is this machine's memory: a write to it is seen by nobody else
	relay  *relay
}

// Drop says that the value is not passed on any more.
func (c Copy) Drop() {
	c.relay.end()
}

// Fetch returns a kept value: if its home is on this machine, the memory of a large one. One that comes in pieces from another
// machine is passed on until Drop.
func (s *Server) Fetch(ctx context.Context, ref Ref) (c Copy, err error) {
	var r *relay
	defer func() {
		if c.relay != r {
			r.end()
		}
	}()
	var last Ref
	for near := s.opts.Segments != nil; ; {
		a, at, err := s.find(ctx, ref, fetching{near: near})
		switch {
		case err != nil:
		case a.segment != nil && near:
			frames, err := s.opts.Segments.Open(ctx, a.segment)
			if err == nil {
				return Copy{Frames: frames, Mapped: true}, nil
			}
			near = false // it is another machine, or has no more room for mappings
			continue
		case a.layout != nil:
			var came bool
			if r, came, err = s.fill(ctx, r, a.layout, at); err == nil {
				return Copy{Frames: r.frames, relay: r}, nil
			}
			if ctx.Err() == nil && (came || at != last) { // it may be elsewhere now
				last = at
				continue
			}
		case s.Local(at) != nil: // it is the home's own, for all others
			a.value = a.value.Private()
		}
		return Copy{Frames: a.value.Frames()}, err
	}
}

// Look returns nil if a kept value is still there, and otherwise the error of Fetch.
func (s *Server) Look(ctx context.Context, ref Ref) error {
	_, _, err := s.find(ctx, ref, fetching{look: true})
	return err
}

// find asks for a value where it lies, and returns under which name it was found.
func (s *Server) find(ctx context.Context, ref Ref, q fetching) (a fetched, at Ref, err error) {
	if at, err = s.nearest(ref); err != nil {
		return a, at, err
	}
	if a, err = Ask(ctx, s, at, fetch, q, func(fetched) {}); err != nil || a.at == (Ref{}) {
		return a, at, err
	}
	at = a.at
	s.visit(at)
	defer s.leaves(at)
	if a, err = Ask(ctx, s, at, fetch, q, func(fetched) {}); err == nil || ctx.Err() != nil {
		return a, at, err
	}
	// Its maker may have handed it over before it ended.
	if now, err := Ask(ctx, s, ref, fetch, q, func(fetched) {}); err != nil || now.at == (Ref{}) {
		return now, ref, err
	}
	return a, at, err
}

// Patiently calls ask until it has reached a home, or that has ended, or was out of reach for so long, or ctx has ended. It returns
// ask's last error.
func Patiently(ctx context.Context, outOfReach time.Duration, ask func() error) error {
	again := retry.Pauses{Longest: askPause}
	for begun := time.Now(); ; {
		err := ask()
		var lost *LostError
		if !errors.As(err, &lost) || lost.Certain() || time.Since(begun) > outOfReach || !again.Wait(ctx) {
			return err
		}
	}
}

// askPause is the longest time between two tries to reach a home.
const askPause = 250 * time.Millisecond

// Withdraw ends a value for all processes, from any of them: in this one at once. It does not wait. If the value's home can't be
// reached at once, it is told within so much time, or the value goes when nobody holds it.
func (s *Server) Withdraw(ref Ref, within time.Duration) {
	if s.Local(ref) != nil {
		s.Remove(ref.Object)
		return
	}
	s.disown(ref)
	s.mu.Lock()
	again, r := s.withdrawn[ref], s.remotes[ref.Endpoint]
	s.withdrawn[ref] = true
	s.mu.Unlock()
	if again {
		return
	}
	p := &Pending{answered: make(chan answer, 1), insists: true}
	sent := r != nil && r.connected() != nil && s.send(s.dials, ref, byte(Discard), &None{}, p) == nil
	go func() {
		s.told(ref, within, sent, p)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.withdrawn, ref)
	}()
}

// told returns when the home of a value that is withdrawn knows that, within so much time. sent says that p may tell it.
func (s *Server) told(ref Ref, within time.Duration, sent bool, p *Pending) {
	ctx, cancel := context.WithTimeout(s.dials, within)
	defer cancel()
	var lost *LostError
	if sent {
		select {
		case a := <-p.answered:
			if !errors.As(a.err, &lost) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
	_ = Patiently(ctx, within, func() error { // else the value goes when nobody holds it
		_, err := Ask(ctx, s, ref, Discard, None{}, func(None) {})
		return err
	})
}

// Serve replies with the value.
func (v kept) Serve(r *Request) { keptOps.Serve(v, r) }

var keptOps = Ops(
	On(Discard, discarded[kept]),
	On(fetch, kept.serve),
	On(join, kept.join),
	On(tell, kept.told),
	On(piece, kept.piece))

// serve answers with the value, or where it is.
func (v kept) serve(r Asked[fetched], q fetching) {
	switch {
	case !r.copied():
		r.Fail(Gone, "")
	case q.look:
		r.Reply(fetched{})
	case q.near && v.near(r.Request):
		r.Reply(fetched{segment: v.segment})
	case v.spread != nil && r.Peer.elsewhere():
		r.Run(true, func() {
			if l, err := v.spread.of(v.home.dials, v.value); err != nil {
				r.Fail(Gone, "") // the home ends
			} else {
				r.Reply(fetched{layout: l})
			}
		})
	default:
		r.Reply(fetched{value: v.value})
	}
}

// discarded serves Discard.
func discarded[O any](_ O, r Asked[None], _ None) {
	r.Peer.home.Remove(r.object.id)
	r.Reply(None{})
}

// near reports whether the requester can open the value's segment.
func (v kept) near(r *Request) bool {
	return v.segment != nil && (v.segment.Socket != "" || r.Peer == r.Peer.home.self)
}

// elsewhere says whether the process may be on another machine.
func (p *Session) elsewhere() bool {
	if p.Local() {
		return false
	}
	_, unix := p.conn.LocalAddr().(*net.UnixAddr)
	return !unix
}

// copied says that the requester gets a copy of the object, unless that is gone.
func (r *Request) copied() bool {
	s, e := r.Peer.home, r.object
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[e.id] != e {
		return false
	}
	if e.copies == nil {
		e.copies = map[*Session]bool{}
	}
	e.copies[r.Peer] = true
	return true
}

// GiveUp refuses a request that was not served.
func (v kept) GiveUp(r *Request) { r.Fail(GivenUp, "") }

// Left does nothing.
func (v kept) Left(*Session, bool) {}

// Drop lets the memory go, and what the value names.
func (v kept) Drop() {
	v.home.ReleaseRefs(v.value)
	if v.segment != nil {
		v.segments.Remove(v.segment)
	}
}
