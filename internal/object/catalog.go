package object

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/retry"
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

// smallBytes is the size up to which a value is small: to fetch it costs no less than to send it along.
const smallBytes = 4 << 10

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

	mu      sync.Mutex
	dropped bool
	taking  bool  // it is given
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
		l.mu.Lock()
		k := l.kept
		l.mu.Unlock()
		switch {
		case k != nil:
			k.serve(r, q)
		case !r.copied():
			r.Fail(Gone, "")
		default:
			r.Reply(fetched{at: l.at})
		}
	}),
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
					r.Fail(NoRoom, err.Error())
				} else {
					r.Reply(None{})
				}
			})
		}
	}))

// NoRoom is the code of a refusal to take a value.
const NoRoom = OwnCodes

// errTwice refuses a value that is given for a second time while it is taken.
var errTwice = errors.New("it is taken already")

// take makes a copy of the value here, or shares its memory.
func (l *listed) take(home *Server, q giving) (err error) {
	l.mu.Lock()
	had, taking := l.kept != nil, l.taking
	l.taking = true
	l.mu.Unlock()
	switch {
	case taking:
		return errTwice
	case had:
		return nil
	}
	var k kept
	if err = home.takes.Acquire(home.dials, 1); err == nil {
		k, err = home.taken(q)
		home.takes.Release(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taking = false
	switch {
	case err != nil:
	case l.dropped:
		k.Drop()
	default:
		l.kept = &k
	}
	return err
}

// taken returns what is given.
func (s *Server) taken(q giving) (kept, error) {
	if q.segment == nil {
		return s.keep(s.dials, q.value.Frames(), q.names.Refs())
	}
	k := kept{home: s, segments: s.opts.Segments}
	segment, frames, err := k.segments.Adopt(s.dials, q.segment)
	if err == nil {
		k.segment, k.value = segment, Encoded(frames, q.names.Refs()...)
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

// made is a value of this process's that the root's catalog lists.
type made struct {
	at        Ref
	secret    string
	travelled bool // other processes may know it
	unwatch   func()

	giving lock.Lock // guards what follows
	given  bool      // the root has a copy
}

// List lists a value that Keep has returned in the root's catalog, and returns the name by which the run knows it: in the root,
// the same one. An error means that the root has not answered.
func (s *Server) List(ctx context.Context, at Ref) (Ref, error) {
	if s.opts.Catalog == nil {
		return at, nil
	}
	root, err := s.catalog.Make(ctx, func() (*Ref, error) {
		ref, err := s.opts.Catalog(ctx)
		return &ref, err
	})
	if err != nil {
		return Ref{}, err
	}
	m := &made{at: at, secret: rand.Text()}
	asked, err := s.reach(ctx, *root)
	if err != nil {
		return Ref{}, err
	}
	q := listing{at: at, secret: m.secret}
	if k, there := s.Local(at).(kept); there && k.value.Size() <= smallBytes {
		q.value, m.given = k.value, true
	}
	ref, err := Ask(ctx, s, *root, list, q, func(ref Ref) { Post(s, ref, Discard, None{}) })
	if err != nil {
		return Ref{}, err
	}
	s.mu.Lock()
	m.unwatch = s.watch(ref, func(notice *Request) {
		if notice.Op == NoticeDropped {
			s.disown(ref)
		} else {
			s.askAfterMade()
		}
	})
	s.made[ref] = m
	changed := s.remotes[root.Endpoint] != asked
	s.mu.Unlock()
	if changed { // it may have dropped the value, and not have found whom to tell
		s.askAfterMade()
	}
	return ref, nil
}

// askAfterMade asks the root, which was out of reach, which of this process's values it still lists, when it is there again.
func (s *Server) askAfterMade() {
	if s.askingAfter.Swap(true) {
		return
	}
	go func() {
		again := retry.Pauses{Longest: time.Second}
		for again.Wait(s.dials) {
			s.askingAfter.Store(false) // what is lost from now on is asked for again
			if s.askAfterEach() || s.askingAfter.Swap(true) {
				return
			}
		}
	}()
}

// askAfterEach asks for each value. It returns false if the root is out of reach.
func (s *Server) askAfterEach() bool {
	s.mu.Lock()
	refs := slices.Collect(maps.Keys(s.made))
	s.mu.Unlock()
	for _, ref := range refs {
		_, err := Ask(s.dials, s, ref, fetch, fetching{look: true}, func(fetched) {})
		var lost *LostError
		switch {
		case errors.Is(err, ErrGone):
			s.disown(ref)
		case errors.As(err, &lost):
			return lost.Certain()
		}
	}
	return true
}

// disown lets a value of this process's go.
func (s *Server) disown(ref Ref) {
	s.mu.Lock()
	m := s.made[ref]
	delete(s.made, ref)
	s.mu.Unlock()
	if m != nil {
		m.unwatch()
		s.Remove(m.at.Object)
	}
}

// Travels notes that other processes are about to know the value with a name.
func (s *Server) Travels(ref Ref) {
	if s.opts.Catalog == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.made[ref]; m != nil {
		m.travelled = true
	}
}

// nearest returns the name in this process of a value that it has made, and of any other what it was asked for. The error is
// ErrGone if the value was withdrawn here.
func (s *Server) nearest(ref Ref) (Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdrawn[ref] {
		return ref, ErrGone
	}
	if m := s.made[ref]; m != nil {
		return m.at, nil
	}
	return ref, nil
}

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
	for again := (retry.Pauses{Longest: time.Second}); ; {
		_, err := Ask(ctx, s, ref, Discard, None{}, func(None) {})
		if !errors.As(err, &lost) || lost.Certain() || !again.Wait(ctx) {
			return
		}
	}
}

// discarded serves Discard.
func discarded[O any](_ O, r Asked[None], _ None) {
	r.Peer.home.Remove(r.object.id)
	r.Reply(None{})
}

// Leave says that the run is about to end: nothing is handed over to this process any more.
func (s *Server) Leave() { s.leaving.Store(true) }

// How many values are handed over, and taken, at a time.
const (
	givesAtOnce = 16
	takesAtOnce = 4
)

// HandOver gives the root a copy of each value of this process's that others may know. It goes on while the root is out of reach,
// until ctx ends. It returns how many values the root has not got, and why.
func (s *Server) HandOver(ctx context.Context) (lost int, why error) {
	s.mu.Lock()
	var refs []Ref
	for ref, m := range s.made {
		if m.travelled {
			refs = append(refs, ref)
		}
	}
	s.mu.Unlock()
	var all errgroup.Group
	var mu sync.Mutex
	all.SetLimit(givesAtOnce)
	for _, ref := range refs {
		all.Go(func() error {
			err := s.giveInTheEnd(ctx, ref)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				lost++
			}
			return err
		})
	}
	why = all.Wait()
	return lost, why
}

// giveInTheEnd is Give, and asks again while the root is out of reach.
func (s *Server) giveInTheEnd(ctx context.Context, ref Ref) error {
	again := retry.Pauses{Longest: time.Second / 4}
	for {
		err := s.Give(ctx, ref)
		if lost := (*LostError)(nil); !errors.As(err, &lost) || lost.Certain() || !again.Wait(ctx) {
			return err
		}
	}
}

// Give gives the root a copy of a value of this process's, unless it has one, or the value has gone. If the root does not take it,
// the error says why.
func (s *Server) Give(ctx context.Context, ref Ref) error {
	s.mu.Lock()
	m := s.made[ref]
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	if err := m.giving.Lock(ctx); err != nil {
		return err
	}
	defer m.giving.Unlock()
	if m.given {
		return nil
	}
	k, there := s.Local(m.at).(kept)
	if !there {
		return nil
	}
	err := error(&Refusal{})
	q := giving{secret: m.secret, names: Encoded(nil, k.value.Refs()...)}
	if k.segment != nil && k.segment.Socket != "" {
		q.fetched = fetched{segment: k.segment}
		_, err = Ask(ctx, s, ref, give, q, func(None) {})
	}
	refusal := (*Refusal)(nil)
	if errors.As(err, &refusal) { // the root is elsewhere
		q.fetched = fetched{value: k.value}
		_, err = Ask(ctx, s, ref, give, q, func(None) {})
	}
	switch {
	case err == nil:
		m.given = true
	case errors.Is(err, ErrGone):
		return nil
	case errors.As(err, &refusal):
		return fmt.Errorf("%s does not take it: %s", ref.Process, refusal.Text)
	}
	return err
}
