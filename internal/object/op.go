package object

// Op is an operation of objects, or a notice of theirs: its number among those
// of the object, what it is asked with, and what it answers. Both are anything
// that pack takes.
type Op[Q, A any] byte

// Number is the operation's.
func (op Op[Q, A]) Number() byte { return byte(op) }

// None is a request, or an answer, that says nothing.
type None struct{}

// Asked is a request whose answer is an A.
type Asked[A any] struct{ *Request }

// Reply answers. The values' frames must not be changed any more.
func (r Asked[A]) Reply(a A) { r.Request.Reply(pack(&a)) }

// Table is what an object, or who watches one, does for each operation.
type Table[O any] map[byte]func(o O, r *Request)

// Handler is a line of a Table.
type Handler[O any] struct {
	op    byte
	serve func(o O, r *Request)
}

// On has do serve an operation. It answers r, now or later.
func On[O, Q, A any](op Op[Q, A], do func(o O, r Asked[A], q Q)) Handler[O] {
	return Handler[O]{byte(op), func(o O, r *Request) {
		var q Q
		if err := unpack(r.Args, r.Value, &q); err != nil {
			r.Malformed()
			return
		}
		do(o, Asked[A]{r}, q)
	}}
}

// Ops makes a table.
func Ops[O any](handlers ...Handler[O]) Table[O] {
	t := Table[O]{}
	for _, s := range handlers {
		t[s.op] = s.serve
	}
	return t
}

// Serve has the table's function serve a request.
func (t Table[O]) Serve(o O, r *Request) {
	if serve := t[r.Op]; serve != nil {
		serve(o, r)
	} else {
		r.Malformed()
	}
}
