package fiber

import (
	"sync"
	"weak"

	"github.com/fiber-go/fiber/internal/garbage"
)

// live holds the values that are reachable elsewhere in this process, one for
// each key.
type live[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
}

// get returns the key's value, which make makes if there is none.
func (l *live[K, V]) get(key K, make func() *V) *V {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.values[key].Value(); v != nil {
		return v
	}
	v := make()
	if l.values == nil {
		l.values = map[K]weak.Pointer[V]{}
	}
	l.values[key] = weak.Make(v)
	garbage.Then(v, l.lapsed, key)
	return v
}

// all returns the values that are there.
func (l *live[K, V]) all() map[K]*V {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[K]*V{}
	for key, w := range l.values {
		if v := w.Value(); v != nil {
			all[key] = v
		}
	}
	return all
}

// lapsed removes a key whose value is garbage, unless it has a new one.
func (l *live[K, V]) lapsed(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values[key].Value() == nil {
		delete(l.values, key)
	}
}

// forget removes a key.
func (l *live[K, V]) forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.values, key)
}
