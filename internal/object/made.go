package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/retry"
)

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

// givesAtOnce is how many values are handed over at a time.
const givesAtOnce = 16

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
			err := Patiently(ctx, math.MaxInt64, func() error { return s.Give(ctx, ref) })
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
