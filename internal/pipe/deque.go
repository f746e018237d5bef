package pipe

import "github.com/fiber-go/fiber/internal/home"

// deque is items in their order.
type deque struct {
	items []home.Value
	head  int // items[:head] are gone
}

func (d *deque) len() int { return len(d.items) - d.head }

func (d *deque) all() []home.Value { return d.items[d.head:] }

func (d *deque) push(v home.Value) {
	if len(d.items) == cap(d.items) && d.head > len(d.items)/2 {
		n := copy(d.items, d.items[d.head:])
		clear(d.items[n:])
		d.items, d.head = d.items[:n], 0
	}
	d.items = append(d.items, v)
}

// pop takes the first item out; there has to be one.
func (d *deque) pop() home.Value {
	v := d.items[d.head]
	d.items[d.head] = home.Value{}
	if d.head++; d.head == len(d.items) {
		d.items, d.head = d.items[:0], 0
	}
	return v
}
