package queue

import "github.com/fiber-go/fiber/internal/home"

// deque is items in their order. It grows at both ends.
type deque struct {
	items []home.Value
	head  int // items[:head] are gone
}

func (d *deque) len() int { return len(d.items) - d.head }

func (d *deque) push(items ...home.Value) {
	if d.head > 0 && d.head >= len(d.items)/2 && len(d.items)+len(items) > cap(d.items) {
		n := copy(d.items, d.items[d.head:])
		clear(d.items[n:])
		d.items, d.head = d.items[:n], 0
	}
	d.items = append(d.items, items...)
}

// unshift puts items before all others.
func (d *deque) unshift(items []home.Value) {
	if d.head < len(items) {
		room := len(items) + d.len()
		grown := make([]home.Value, room+d.len(), room+2*d.len()+1)
		copy(grown[room:], d.items[d.head:])
		d.items, d.head = grown, room
	}
	d.head -= len(items)
	copy(d.items[d.head:], items)
}

// front gives the first n items, or as many as there are, in place.
func (d *deque) front(n int) []home.Value {
	return d.items[d.head : d.head+min(n, d.len())]
}

// drop takes the first n items out.
func (d *deque) drop(n int) {
	clear(d.items[d.head : d.head+n])
	d.head += n
	if d.head == len(d.items) {
		d.items, d.head = d.items[:0], 0
		if cap(d.items) > 1024 {
			d.items = nil
		}
	}
}
