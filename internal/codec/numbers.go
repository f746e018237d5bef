package codec

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"reflect"
)

// run is the shape of a type that consists of numbers or bools alone: width of them in a row, 1 for a
// plain number and 6 for a [2][3]int16.
type run struct {
	kind  reflect.Kind
	width int
}

const maxWidth = 1 << 24 // keeps a row's size an int on every host

func (r run) size() int { return r.width * wireSize(r.kind) }

// runOf returns the shape of t. It returns false for types that are not runs, or that have an
// encoding of their own.
func runOf(t reflect.Type) (run, bool) {
	switch k := t.Kind(); {
	case k != reflect.Array && (k < reflect.Bool || k > reflect.Complex128), customOf(t) != nil:
		return run{}, false
	case k != reflect.Array:
		return run{k, 1}, true
	}
	r, ok := runOf(t.Elem())
	r.width *= t.Len()
	return r, ok && r.width > 0 && r.width <= maxWidth
}

// sliceTypes lists the slice type that a run of each kind of number becomes in an any.
var sliceTypes = [...]reflect.Type{
	reflect.Bool: reflect.TypeFor[[]bool](), reflect.Int: reflect.TypeFor[[]int](),
	reflect.Int8: reflect.TypeFor[[]int8](), reflect.Int16: reflect.TypeFor[[]int16](),
	reflect.Int32: reflect.TypeFor[[]int32](), reflect.Int64: reflect.TypeFor[[]int64](),
	reflect.Uint: reflect.TypeFor[[]uint](), reflect.Uint8: reflect.TypeFor[[]uint8](),
	reflect.Uint16: reflect.TypeFor[[]uint16](), reflect.Uint32: reflect.TypeFor[[]uint32](),
	reflect.Uint64: reflect.TypeFor[[]uint64](), reflect.Uintptr: reflect.TypeFor[[]uintptr](),
	reflect.Float32: reflect.TypeFor[[]float32](), reflect.Float64: reflect.TypeFor[[]float64](),
	reflect.Complex64: reflect.TypeFor[[]complex64](), reflect.Complex128: reflect.TypeFor[[]complex128](),
}

// wireSize returns the number of bytes of one number on the wire.
func wireSize(k reflect.Kind) int { return int(sliceTypes[wireKind(k)].Elem().Size()) }

// wireKind returns the kind that stands for k on the wire, where int and int64 are the same.
func wireKind(k reflect.Kind) reflect.Kind {
	switch k {
	case reflect.Int:
		return reflect.Int64
	case reflect.Uint, reflect.Uintptr:
		return reflect.Uint64
	default:
		return k
	}
}

// The kind on the wire is reflect's number, with grid set when a width follows.
const grid = 0x80

var bytesRun = run{reflect.Uint8, 1}

// numbers writes runs, of which b has the bytes; large ones get a frame of their own.
func (e *encoder) numbers(t reflect.Type, r run, b []byte) error {
	large := len(b) >= FrameMin && len(e.frames) < FrameCount && !e.sorted
	if r == bytesRun && !large {
		if err := cmp.Or(fits(t, len(b)), e.EncodeBytesLen(len(b))); err != nil {
			return err
		}
		e.buf.Write(b)
		return nil
	}
	head := []byte{byte(r.kind)}
	if r.width > 1 {
		head = binary.AppendUvarint([]byte{byte(r.kind) | grid}, uint64(r.width))
	}
	if large {
		e.frames = append(e.frames, b)
		return e.extension(t, extFrame, head)
	}
	return e.extension(t, extNumbers, head, b)
}

// numbers reads runs of the given shape. It returns their bytes, and whether these are a frame of
// their own.
func (d *decoder) numbers(t reflect.Type, want run) (b []byte, own bool, err error) {
	r := bytesRun
	switch c, _ := d.next(); c {
	case classBinary:
		b, err = d.text(t, c)
	case classExt:
		var id int8
		if id, b, err = d.extension(t); err == nil {
			own = id == extFrame
			r, b, err = d.run(id, b)
		}
	case classEnd:
		err = short(t)
	default:
		err = fail(t, "found %s instead of numbers", c)
	}
	switch {
	case err != nil:
		return nil, false, typed(err, t)
	case wireKind(r.kind) != wireKind(want.kind) || r.width != want.width:
		return nil, false, fail(t, "found numbers of another type, %s", r)
	}
	return b, own, nil
}

func (r run) String() string {
	if r.width == 1 {
		return r.kind.String()
	}
	return "rows of " + r.kind.String()
}

// run reads the shape and the bytes of the runs in an extension.
func (d *decoder) run(id int8, b []byte) (r run, _ []byte, err error) {
	switch {
	case id != extNumbers && id != extFrame:
		return r, nil, fail(nil, "found extension %d instead of numbers", id)
	case len(b) == 0:
		return r, nil, fail(nil, "numbers of an unknown kind")
	}
	r, b, isGrid := run{reflect.Kind(b[0] &^ grid), 1}, b[1:], b[0]&grid != 0
	if isGrid {
		w, n := binary.Uvarint(b)
		if n <= 0 || w <= 1 || w > maxWidth {
			return r, nil, fail(nil, "numbers in rows of an invalid length")
		}
		r.width, b = int(w), b[n:]
	}
	if r.kind < reflect.Bool || r.kind > reflect.Complex128 {
		return r, nil, fail(nil, "numbers of an unknown kind")
	}
	if id == extFrame {
		if len(b) > 0 {
			return r, nil, fail(nil, "numbers both in the message and in a frame")
		}
		if b, err = d.frame(); err != nil {
			return r, nil, err
		}
	}
	if len(b)%r.size() != 0 {
		return r, nil, fail(nil, "%d bytes are not a whole number of %s", len(b), r)
	}
	if r.kind == reflect.Bool && bytes.Count(b, []byte{0})+bytes.Count(b, []byte{1}) < len(b) {
		return r, nil, fail(nil, "found a bool that is neither true nor false")
	}
	return r, b, nil
}
