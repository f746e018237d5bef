package object

import (
	"crypto/subtle"
	"sync"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
)

// A value that another process than the root has made is listed in the root's catalog. The run knows it by the name of its entry
// there, which says where the value lies: in its maker, or in the root once that has a copy. So a value can outlive its maker under
// the name that it has.

// catalog is the Object of the root with which other processes list their values.
type catalog struct{}

// list makes an entry, and answers with its name.
const list Op[listing, Ref] = 0

// listing describes a value.
type listing struct {
	at     Ref    // its name in its maker
	secret string // with which it is given
	value  Value  // of a small one, of which the root has a copy from the beginning
}

// smallBytes is the size up to which a value is small: to fetch it costs no less than to send it along. Users are promised 4 KiB.
const smallBytes = 5 << 10

// Append appends the packed request to b and frames.
func (q *listing) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return q.value.Append(wire.AppendString(q.at.Append(b), q.secret), frames)
}

// Read takes a packed request.
func (q *listing) Read(in *wire.Reader) {
	q.at.take(in)
	q.secret = in.String()
	q.value.Read(in)
}

var catalogOps = Ops(On(list, func(_ catalog, r Asked[Ref], q listing) {
	home := r.Peer.home
	l := &listed{at: q.at, secret: q.secret}
	if q.value.First != nil && q.value.Size() <= smallBytes {
		if k, err := home.keep(home.dials, q.value.Frames(), q.value.Refs()); err == nil {
			l.kept = &k
		}
	}
	ref, err := home.MakeFor(l)
	if err != nil || q.at.Endpoint == ref.Endpoint {
		l.Drop()
		r.Fail(Gone, "")
		return
	}
	home.mu.Lock()
	if e := home.objects[ref.Object]; e != nil {
		e.copies = map[*Session]bool{r.Peer: true}
	}
	home.mu.Unlock()
	r.Reply(ref)
}))

func (c catalog) Serve(r *Request)  { catalogOps.Serve(c, r) }
func (c catalog) GiveUp(r *Request) { r.Fail(GivenUp, "") }
func (catalog) Left(*Session, bool) {}
func (catalog) Drop()               {}

// Catalog returns the name of this process's catalog.
func (s *Server) Catalog() (Ref, error) {
	endpoint, err := s.Endpoint()
	return Ref{endpoint, catalogID, s.opts.Name, self.Of().PID}, err
}

// catalogID is the number of the root's catalog.
const catalogID = 1

// listed is an entry of the catalog.
type listed struct {
	at     Ref // the value in the process that has made it
	secret string

	taking lock.Lock // held while it is given

	mu      sync.Mutex
	dropped bool
	kept    *kept // a copy here
}

// give hands a listed value over.
const give Op[giving, None] = 0x10

// giving is a value, or the segment of this machine's where it is.
type giving struct {
	secret string
	names  Value // only the objects that the value names
	fetched
}

// Append appends the packed request to b and frames.
func (q *giving) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	b, frames = q.names.Append(wire.AppendString(b, q.secret), frames)
	return q.fetched.Append(b, frames)
}

// Read takes a packed request.
func (q *giving) Read(in *wire.Reader) {
	q.secret = in.String()
	q.names.Read(in)
	q.fetched.Read(in)
}

var listedOps = Ops(
	On(Discard, discarded[*listed]),
	On(fetch, func(l *listed, r Asked[fetched], q fetching) {
		switch k := l.copy(); {
		case k != nil:
			k.serve(r, q)
		case !r.copied():
			r.Fail(Gone, "")
		default:
			r.Reply(fetched{at: l.at})
		}
	}),
	On(join, ofCopy(kept.join)),
	On(tell, ofCopy(kept.told)),
	On(piece, ofCopy(kept.piece)),
	Awaited(give, func(l *listed, r Asked[None], q giving) {
		home := r.Peer.home
		switch {
		case home.leaving.Load():
			r.Fail(Gone, "") // there is nobody to whom it matters any more
		case subtle.ConstantTimeCompare([]byte(q.secret), []byte(l.secret)) == 0 || q.segment == nil && q.value.First == nil:
			r.Malformed()
		default:
			r.Run(false, func() {
				if err := l.take(home, q); err != nil {
					r.Fail(noRoom, err.Error())
				} else {
					r.Reply(None{})
				}
			})
		}
	}))

// copy returns the copy here, nil if there is none.
func (l *listed) copy() *kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// ofCopy serves a request with the copy here.
func ofCopy[Q, A any](serve func(k kept, r Asked[A], q Q)) func(*listed, Asked[A], Q) {
	return func(l *listed, r Asked[A], q Q) {
		if k := l.copy(); k != nil {
			serve(*k, r, q)
		} else {
			r.Fail(Gone, "")
		}
	}
}

// noRoom is the code of a refusal to take a value.
const noRoom = OwnCodes

// take makes a copy of the value here, or shares its memory. A second one waits for the first, and has nothing to do.
func (l *listed) take(home *Server, q giving) error {
	if err := l.taking.Lock(home.dials); err != nil {
		return err
	}
	defer l.taking.Unlock()
	l.mu.Lock()
	done := l.dropped || l.kept != nil
	l.mu.Unlock()
	if done {
		return nil
	}
	if err := home.takes.Acquire(home.dials, 1); err != nil {
		return err
	}
	defer home.takes.Release(1)
	k, err := home.taken(q)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		k.Drop()
	} else {
		l.kept = &k
	}
	return nil
}

// taken returns what is given.
func (s *Server) taken(q giving) (kept, error) {
	if q.segment == nil {
		return s.keep(s.dials, q.value.Frames(), q.names.Refs())
	}
	k := kept{home: s, segments: s.opts.Segments}
	segment, frames, err := k.segments.Adopt(s.dials, q.segment)
	if err == nil {
		k.segment, k.value, k.spread = segment, Encoded(frames, q.names.Refs()...), spreadOf(frames)
		s.HoldRefs(k.value)
	}
	return k, err
}

func (l *listed) Serve(r *Request)    { listedOps.Serve(l, r) }
func (l *listed) GiveUp(r *Request)   { r.Fail(GivenUp, "") }
func (l *listed) Left(*Session, bool) {}

// Drop lets the copy go. The value's maker is told by NoticeDropped.
func (l *listed) Drop() {
	l.mu.Lock()
	k := l.kept
	l.kept, l.dropped = nil, true
	l.mu.Unlock()
	if k != nil {
		k.Drop()
	}
}

// Leave says that the run is about to end: nothing is handed over to this process any more.
func (s *Server) Leave() { s.leaving.Store(true) }

// takesAtOnce is how many values are taken over at a time.
const takesAtOnce = 4
