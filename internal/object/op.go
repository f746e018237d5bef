package object

import (
	"reflect"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
)

// Op is an operation of an object, or a notice: its number among the object's,
// the type Q of what it is asked with, and the type A of its answer.
type Op[Q, A any] byte

// Number is the operation's number.
func (op Op[Q, A]) Number() byte { return byte(op) }

// None is an empty request or answer.
type None struct{}

// Append appends nothing.
func (*None) Append(b []byte, frames [][]byte) ([]byte, [][]byte) { return b, frames }

// Read takes nothing.
func (*None) Read(*wire.Reader) {}

// Asked is a request whose answer is an A.
type Asked[A any] struct{ *Request }

// Reply answers the request. The values' frames must not be changed afterwards.
func (r Asked[A]) Reply(a A) { r.answer(fine, said{frames: Pack(&a)}) }

// Table maps operations to what an object, or its watcher, does for them.
type Table[O any] map[byte]func(o O, r *Request)

// Handler is a line of a Table.
type Handler[O any] struct {
	op    byte
	serve func(o O, r *Request)
}

// On makes do the handler of an operation; do answers r, now or later. What comes
// of an operation without an answer may not interest who asked.
func On[O, Q, A any](op Op[Q, A], do func(o O, r Asked[A], q Q)) Handler[O] {
	return handler(op, reflect.TypeFor[A]() != reflect.TypeFor[None](), do)
}

// Awaited is On for an operation without an answer that may have to wait, so that
// somebody must be interested.
func Awaited[O, Q any](op Op[Q, None], do func(o O, r Asked[None], q Q)) Handler[O] {
	return handler(op, true, do)
}

// handler makes a line of a Table. If the operation is awaited, a request that
// wants no answer is dropped: nothing would end its waiting.
func handler[O, Q, A any](op Op[Q, A], awaited bool, do func(o O, r Asked[A], q Q)) Handler[O] {
	return Handler[O]{byte(op), func(o O, r *Request) {
		if awaited && r.id == 0 {
			return
		}
		q, err := opened[Q](r.said)
		if err != nil {
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

// said holds what a request, an answer or a notice says.
type said struct {
	frames [][]byte // encoded
	plain  any      // of a request or a notice to this process itself: a pointer to it, instead
}

// Packed is the content of the most frequent requests, answers and notices, which is packed by hand.
type Packed interface {
	Append(b []byte, frames [][]byte) ([]byte, [][]byte)
	Read(in *wire.Reader)
}

// ByHand returns what packs the thing that x points to, nil if the codec does.
func ByHand(x any) Packed {
	switch x := x.(type) {
	case Packed:
		return x
	case *[]Value:
		return (*Values)(x)
	case *int:
		return number[int]{x}
	case *uint64:
		return number[uint64]{x}
	}
	return nil
}

// number points to a number.
type number[T int | uint64] struct{ n *T }

func (x number[T]) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return wire.AppendUvarint(b, uint64(*x.n)), frames
}

func (x number[T]) Read(in *wire.Reader) { *x.n = T(in.Uvarint()) }

// Pack encodes what x points to. Its large parts are not copied.
func Pack(x any) [][]byte {
	if p := ByHand(x); p != nil {
		first, frames := p.Append(nil, make([][]byte, 1))
		frames[0] = first
		return frames
	}
	frames, _, err := codec.MarshalListing(reflect.ValueOf(x).Elem(), nil)
	if err != nil {
		panic("object: " + err.Error()) // only the types of this module are packed
	}
	return frames
}

// Unpack decodes what was packed into what x points to, which is zero.
func Unpack(frames [][]byte, x any) error {
	p := ByHand(x)
	if p == nil || len(frames) == 0 {
		return codec.Unmarshal(frames, x)
	}
	in := wire.Reader{B: frames[0], Frames: frames[1:]}
	p.Read(&in)
	return in.End()
}

// opened returns what was said.
func opened[X any](s said) (x X, err error) {
	if p, ok := s.plain.(*X); ok {
		return *p, nil
	}
	err = Unpack(s.frames, &x)
	return x, err
}

// eachValue copies the slices in v, a struct or a slice of structs, and calls do
// for all Values in it.
func eachValue(v reflect.Value, do func(*Value)) {
	switch {
	case v.Type() == reflect.TypeFor[Value]():
		do(v.Addr().Interface().(*Value))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachValue(v.Field(i), do)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.AppendSlice(reflect.Zero(v.Type()), v))
		for i := range v.Len() {
			eachValue(v.Index(i), do)
		}
	}
}
