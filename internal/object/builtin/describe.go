package builtin

import (
	"strings"

	observed "github.com/fiber-go/fiber/event"
)

// describe sets what is known of any object, and calls more with the object's lock held.
func (b *base) describe(o *observed.Object, kind string, more func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.Kind, o.Waiting = kind, len(b.waiting)
	more()
}

// Describe says what is in the dict.
func (d *dict) Describe(o *observed.Object) {
	d.describe(o, "dict", func() { o.Length = len(d.entries) })
}

// Describe says what is in the list.
func (l *list) Describe(o *observed.Object) {
	l.describe(o, "list", func() { o.Length = len(l.cells) })
}

// Describe says who has the lock.
func (l *lock) Describe(o *observed.Object) {
	kind := "semaphore"
	if l.exclusive {
		kind = "lock"
	}
	l.describe(o, kind, func() {
		var holders []string
		for _, h := range l.held {
			holders = append(holders, h.peer.Name)
		}
		o.Holder = strings.Join(holders, ", ")
		o.Waiting += len(l.sleeping)
	})
}

// Describe says who waits for the event.
func (e *event) Describe(o *observed.Object) { e.describe(o, "event", func() {}) }

// Describe says who waits at the barrier.
func (b *barrier) Describe(o *observed.Object) { b.describe(o, "barrier", func() {}) }
