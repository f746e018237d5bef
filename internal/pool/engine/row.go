package engine

import "iter"

// row is batches in the order in which they were handed out. A batch is in one row of each kind at most. The zero row has those that a
// worker holds.
type row struct {
	kind        kind
	first, last *batch
	n           int
}

// kind says which batches a row has.
type kind int

const (
	ofWorker kind = iota // those that a worker holds
	ofCall               // those of a call that are wanted, and held by workers
	toSend               // those that a worker is still to be sent
	kinds
)

// place is where a batch is in a row.
type place struct {
	in     *row // nil for nowhere
	before *batch
	behind *batch
}

func (r *row) add(b *batch) {
	b.places[r.kind] = place{in: r, before: r.last}
	if r.last == nil {
		r.first = b
	} else {
		r.last.places[r.kind].behind = b
	}
	r.last = b
	r.n++
}

// remove removes the batch if it is there.
func (r *row) remove(b *batch) {
	at := b.places[r.kind]
	if at.in != r {
		return
	}
	if at.before == nil {
		r.first = at.behind
	} else {
		at.before.places[r.kind].behind = at.behind
	}
	if at.behind == nil {
		r.last = at.before
	} else {
		at.behind.places[r.kind].before = at.before
	}
	b.places[r.kind] = place{}
	r.n--
}

// all yields the batches. The one that is yielded may be removed.
func (r *row) all() iter.Seq[*batch] {
	return r.walk(r.first, func(p place) *batch { return p.behind })
}

// backward is all, the last first.
func (r *row) backward() iter.Seq[*batch] {
	return r.walk(r.last, func(p place) *batch { return p.before })
}

func (r *row) walk(b *batch, on func(place) *batch) iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		for at := b; at != nil; {
			next := on(at.places[r.kind])
			if !yield(at) {
				return
			}
			at = next
		}
	}
}
