package object

import (
	"context"
	"errors"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/shm"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a kept value.
const (
	fetch   Op[fetching, fetched] = iota
	Look    Op[None, None]        = iota // whether it is still there
	Discard Op[None, None]        = iota // by another process than its home
)

// NoticeDropped tells the processes that keep a copy of an object that it
// exists no longer.
const NoticeDropped = 0xfe

// fetching asks for a value.
type fetching struct {
	near bool // a segment of the home's machine will do
}

// Append appends the packed request to b.
func (q *fetching) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	if q.near {
		return append(b, 1), frames
	}
	return append(b, 0), frames
}

// Read takes a packed request.
func (q *fetching) Read(in *wire.Reader) { q.near = in.Uvarint() == 1 }

// fetched is a value, or where it is.
type fetched struct {
	value   Value
	segment *shm.Segment
}

// Append appends the packed answer to b and frames.
func (a *fetched) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	if a.segment == nil {
		return a.value.Append(wire.AppendString(b, ""), frames)
	}
	b = wire.AppendString(wire.AppendString(b, a.segment.Key), a.segment.Socket)
	b = wire.AppendUvarint(b, uint64(len(a.segment.Sizes)))
	for _, n := range a.segment.Sizes {
		b = wire.AppendUvarint(b, uint64(n))
	}
	return b, frames
}

// Read takes a packed answer.
func (a *fetched) Read(in *wire.Reader) {
	key := in.String()
	if key == "" {
		a.value.Read(in)
		return
	}
	a.segment = &shm.Segment{Key: key, Socket: in.String()}
	for n := in.Count(); len(a.segment.Sizes) < n && in.Err == nil; {
		a.segment.Sizes = append(a.segment.Sizes, in.Int())
	}
}

// kept is an object that only holds a value.
type kept struct {
	value    Value
	segments *shm.Store
	segment  *shm.Segment // where processes of this machine find it; nil if they do not
}

// segmentMin is how many bytes of a value are shared by the processes of a machine.
const segmentMin = 64 << 10

// Keep makes an object of a value of these frames, which it copies. Whoever has fetched
// it gets NoticeDropped when it goes, whether it holds the object or not. The error is a
// *shm.FullError if there is no room for it.
func (s *Server) Keep(ctx context.Context, frames [][]byte) (Ref, error) {
	v := kept{segments: s.opts.Segments}
	if codec.Size(frames) >= segmentMin {
		segment, err := v.segments.Add(ctx, frames)
		if full := (*shm.FullError)(nil); errors.As(err, &full) {
			return Ref{}, err
		}
		if err == nil {
			if own, err := v.segments.Open(ctx, segment); err == nil {
				v.value, v.segment = Encoded(own), segment
			} else {
				v.segments.Remove(segment)
			}
		}
	}
	if err := ctx.Err(); err != nil { // the copy may have taken long
		v.Drop()
		return Ref{}, err
	}
	if v.segment == nil {
		v.value = Encoded(frames).Private()
	}
	ref, err := s.Make(v, false)
	if err != nil {
		v.Drop()
	}
	return ref, err
}

// Fetch returns the frames of a kept value. Those of a large one are this machine's
// memory if its home is here, which is mapped: a write to them is seen by nobody else.
func (s *Server) Fetch(ctx context.Context, ref Ref) (frames [][]byte, mapped bool, err error) {
	a, err := Ask(ctx, s, ref, fetch, fetching{near: s.opts.Segments != nil}, func(fetched) {})
	if err == nil && a.segment != nil {
		if frames, err := s.opts.Segments.Open(ctx, a.segment); err == nil {
			return frames, true, nil
		}
		a, err = Ask(ctx, s, ref, fetch, fetching{}, func(fetched) {}) // it is another machine, or has no more room for mappings
	}
	if err == nil && s.Local(ref) != nil { // it is the home's own, for all others
		a.value = a.value.Private()
	}
	return a.value.Frames(), false, err
}

// Serve replies with the value.
func (v kept) Serve(r *Request) { keptOps.Serve(v, r) }

var keptOps = Ops(
	On(Look, func(_ kept, r Asked[None], _ None) { r.Reply(None{}) }),
	On(Discard, func(_ kept, r Asked[None], _ None) { r.Peer.home.Remove(r.object.id) }),
	On(fetch, func(v kept, r Asked[fetched], q fetching) {
		switch {
		case !r.copied():
			r.Fail(Gone, "")
		case q.near && v.near(r.Request):
			r.Reply(fetched{segment: v.segment})
		default:
			r.Reply(fetched{value: v.value})
		}
	}))

// near reports whether the requester can open the value's segment.
func (v kept) near(r *Request) bool {
	return v.segment != nil && (v.segment.Socket != "" || r.Peer == r.Peer.home.self)
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

// Drop lets the memory go.
func (v kept) Drop() {
	if v.segment != nil {
		v.segments.Remove(v.segment)
	}
}
