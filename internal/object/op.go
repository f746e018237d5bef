package object

import (
	"reflect"

	"github.com/fiber-go/fiber/internal/codec"
)

// Op is an operation of an object, or a notice: its number among the object's,
// the type Q of what it is asked with, and the type A of its answer.
type Op[Q, A any] byte

// Number is the operation's number.
func (op Op[Q, A]) Number() byte { return byte(op) }

// None is an empty request or answer.
type None struct{}

// Asked is a request whose answer is an A.
type Asked[A any] struct{ *Request }

// Reply is Request.Reply with an answer of the right type.
func (r Asked[A]) Reply(a A) { r.Request.Reply(a) }

// Table maps operations to what an object, or its watcher, does for them.
type Table[O any] map[byte]func(o O, r *Request)

// Handler is a line of a Table.
type Handler[O any] struct {
	op    byte
	serve func(o O, r *Request)
}

// On makes do the handler of an operation; do answers r, now or later.
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

// Serve calls the request's handler, or answers Malformed if it has none.
func (t Table[O]) Serve(o O, r *Request) {
	if serve := t[r.Op]; serve != nil {
		serve(o, r)
	} else {
		r.Malformed()
	}
}

// pack encodes a request, an answer or a notice. Its large parts are not copied.
func pack(x any) (args []byte, value [][]byte) {
	frames, err := codec.Marshal(x)
	if err != nil {
		panic("object: " + err.Error()) // only the types of this module are packed
	}
	return frames[0], frames[1:]
}

// unpack decodes what pack has encoded into what x points to.
func unpack(args []byte, value [][]byte, x any) error {
	return codec.Unmarshal(append([][]byte{args}, value...), x)
}

// keepWith makes all Values in v keep something.
func keepWith(keep any, v reflect.Value) {
	if x, ok := v.Addr().Interface().(*Value); ok {
		x.Keep = keep
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			keepWith(keep, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			keepWith(keep, v.Index(i))
		}
	}
}
