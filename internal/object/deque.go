package object

// Deque is a sequence of values that grows at both ends.
type Deque struct {
	items []Value
	head  int // items[:head] are gone
}

// Len is the number of items.
func (d *Deque) Len() int { return len(d.items) - d.head }

// Push puts items behind all others.
func (d *Deque) Push(items ...Value) {
	if d.head > 0 && d.head >= len(d.items)/2 && len(d.items)+len(items) > cap(d.items) {
		n := copy(d.items, d.items[d.head:])
		clear(d.items[n:])
		d.items, d.head = d.items[:n], 0
	}
	d.items = append(d.items, items...)
}

// Unshift puts items before all others.
func (d *Deque) Unshift(items []Value) {
	if d.head < len(items) {
		room := len(items) + d.Len()
		grown := make([]Value, room+d.Len(), room+2*d.Len()+1)
		copy(grown[room:], d.items[d.head:])
		d.items, d.head = grown, room
	}
	d.head -= len(items)
	copy(d.items[d.head:], items)
}

// Front returns the first n items, or as many as there are, in place.
func (d *Deque) Front(n int) []Value {
	return d.items[d.head : d.head+min(n, d.Len())]
}

// All returns all items, in place.
func (d *Deque) All() []Value { return d.items[d.head:] }

// Drop removes the first n items.
func (d *Deque) Drop(n int) {
	clear(d.items[d.head : d.head+n])
	d.head += n
	if d.head == len(d.items) {
		d.items, d.head = d.items[:0], 0
		if cap(d.items) > 1024 {
			d.items = nil
		}
	}
}

// Pop removes and returns the first item, which must exist.
func (d *Deque) Pop() Value {
	v := d.items[d.head]
	d.Drop(1)
	return v
}
