package object

import (
	"maps"
	"slices"

	"github.com/fiber-go/fiber/event"
)

// Described is an Object of which those who watch are told. The others are this package's own.
type Described interface {
	// Describe sets what it knows of the fields. It may lock the object.
	Describe(o *event.Object)
}

const (
	// mostListed is how many objects Objects lists, the oldest ones.
	mostListed = 1000
	// mostLooked is how many objects there may be for Objects to list any.
	mostLooked = 20 * mostListed
)

// Objects describes this process's objects, and says how many others there are.
func (s *Server) Objects() (list []event.Object, more int) {
	s.mu.Lock()
	if len(s.objects) > mostLooked {
		defer s.mu.Unlock()
		return nil, len(s.objects)
	}
	var all []*entry
	var users []int
	for _, id := range slices.Sorted(maps.Keys(s.objects)) {
		e := s.objects[id]
		if _, ok := e.Object.(Described); !ok {
			continue
		}
		if len(all) == mostListed {
			more++
			continue
		}
		all, users = append(all, e), append(users, len(e.holders))
	}
	s.mu.Unlock()
	for i, e := range all {
		o := event.Object{ID: e.id, Users: users[i], Served: e.served.Load(), Length: -1}
		e.Object.(Described).Describe(&o)
		list = append(list, o)
	}
	return list, more
}

// Describe says what the value is.
func (v kept) Describe(o *event.Object) { o.Kind, o.Bytes = "shared value", int64(v.value.Size()) }

// Describe says what the value is, which is another process's.
func (l *listed) Describe(o *event.Object) { o.Kind = "shared value of " + l.at.Process }
