package object

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/self"
)

// A value that another process than the root has made is listed in the root's catalog. The run knows it by the name of its entry
// there, which says where the value lies: in its maker, or in the root once that has a copy. So a value can outlive its maker under
// the name that it has.

// catalog is the Object of the root with which other processes list their values.
type catalog struct{}

// list makes an entry for the value with a name, and answers with that of the entry.
const list Op[Ref, Ref] = 0

var catalogOps = Ops(On(list, func(_ catalog, r Asked[Ref], at Ref) {
	l := &listed{at: at}
	home := r.Peer.home
	ref, err := home.MakeFor(l)
	if err != nil {
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
	at Ref // the value in the process that has made it

	mu      sync.Mutex
	dropped bool
	kept    *kept // a copy here
}

// give hands a listed value over: the answer of fetch for it.
const give Op[fetched, None] = 0x10

var listedOps = Ops(
	On(Discard, func(_ *listed, r Asked[None], _ None) { r.Peer.home.Remove(r.object.id) }),
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
	Awaited(give, func(l *listed, r Asked[None], a fetched) {
		r.Run(false, func() {
			if err := l.take(r.Peer.home, a); err != nil {
				r.Fail(Unknown, err.Error())
			} else {
				r.Reply(None{})
			}
		})
	}))

// take makes a copy of the value here, or shares its memory.
func (l *listed) take(home *Server, a fetched) error {
	var k kept
	var err error
	if a.segment == nil {
		k, err = home.keep(home.dials, a.value.Frames())
	} else {
		k = kept{segments: home.opts.Segments}
		var frames [][]byte
		if k.segment, frames, err = k.segments.Adopt(home.dials, a.segment); err == nil {
			k.value = Encoded(frames)
		}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	unwanted := l.dropped || l.kept != nil
	if !unwanted {
		l.kept = &k
	}
	l.mu.Unlock()
	if unwanted {
		k.Drop()
	}
	return nil
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
	travelled bool // other processes may know it
	given     bool // the root has a copy
	unwatch   func()
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
	ref, err := Ask(ctx, s, *root, list, at, func(ref Ref) { Post(s, ref, Discard, None{}) })
	if err != nil {
		return Ref{}, err
	}
	m := &made{at: at}
	m.unwatch = s.Watch(ref, func(notice *Request) {
		if notice.Op == NoticeDropped {
			s.disown(ref)
		} else {
			go s.askAfter(ref)
		}
	})
	s.mu.Lock()
	s.made[ref] = m
	s.mu.Unlock()
	return ref, nil
}

// askAfter asks the root, which was out of reach, whether it still lists a value of this process's.
func (s *Server) askAfter(ref Ref) {
	again := retry.Pauses{Longest: time.Second}
	for {
		_, err := Ask(s.dials, s, ref, fetch, fetching{look: true}, func(fetched) {})
		var lost *LostError
		if err != nil && !errors.As(err, &lost) {
			s.disown(ref)
		}
		if lost == nil || lost.Certain() || !again.Wait(s.dials) {
			return
		}
	}
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

// nearest returns the name in this process of a value that it has made, and of any other what it was asked for.
func (s *Server) nearest(ref Ref) Ref {
	if s.opts.Catalog == nil {
		return ref
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.made[ref]; m != nil {
		return m.at
	}
	return ref
}

// Withdraw ends a value for all processes, from any of them. It does not wait. If the value's home can't be reached at once, it
// hears of it within wait, or the value goes when nobody holds it.
func (s *Server) Withdraw(ref Ref, wait time.Duration) {
	if s.Local(ref) != nil {
		s.Remove(ref.Object)
		return
	}
	s.disown(ref)
	if Post(s, ref, Discard, None{}) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(s.dials, wait)
		defer cancel()
		_ = Tell(ctx, s, ref, Discard, None{}) // else it goes when its references have gone
	}()
}

// atOnce is how many values are handed over at a time.
const atOnce = 4

// HandOver gives the root a copy of each value of this process's that others may know. The error tells which one it has not got.
func (s *Server) HandOver(ctx context.Context) error {
	s.mu.Lock()
	var refs []Ref
	for ref, m := range s.made {
		if m.travelled {
			refs = append(refs, ref)
		}
	}
	s.mu.Unlock()
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, ref := range refs {
		all.Go(func() error { return s.Give(ctx, ref) })
	}
	return all.Wait()
}

// Give gives the root a copy of a value of this process's, unless it has one, or the value has gone.
func (s *Server) Give(ctx context.Context, ref Ref) error {
	s.mu.Lock()
	m := s.made[ref]
	s.mu.Unlock()
	if m == nil || m.given {
		return nil
	}
	k, _ := s.Local(m.at).(kept)
	err := error(&Refusal{})
	if k.segment != nil && k.segment.Socket != "" {
		_, err = Ask(ctx, s, ref, give, fetched{segment: k.segment}, func(None) {})
	}
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) { // the root is elsewhere
		_, err = Ask(ctx, s, ref, give, fetched{value: k.value}, func(None) {})
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err == nil {
		s.mu.Lock()
		m.given = true
		s.mu.Unlock()
	}
	return err
}
