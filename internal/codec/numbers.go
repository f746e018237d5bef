package codec

import (
	"encoding/binary"
	"reflect"
	"unsafe"
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

// wireSize returns the number of bytes of one number on the wire. For int, uint and uintptr it is 8,
// whatever the host's size.
func wireSize(k reflect.Kind) int {
	switch k {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return 1
	case reflect.Int16, reflect.Uint16:
		return 2
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return 4
	case reflect.Complex128:
		return 16
	default:
		return 8
	}
}

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

// numbers writes count runs that lie at p; large ones get a frame of their own.
func (e *encoder) numbers(t reflect.Type, r run, p unsafe.Pointer, count int) error {
	b := toWire(r.kind, p, count*r.width)
	var how byte
	if len(b) >= frameMin {
		if fewer, as := narrow(r.kind, p, count*r.width); fewer != nil {
			b, how = fewer, as
		}
	}
	var head [1 + binary.MaxVarintLen32]byte
	head[0] = byte(r.kind) | how
	n := 1
	if r.width > 1 {
		head[0] |= grid
		n += binary.PutUvarint(head[1:], uint64(r.width))
	}
	if len(b) >= frameMin && len(e.frames) < frameCount {
		e.ext(extFrame, n)
		e.buf = append(e.buf, head[:n]...)
		e.frames = append(e.frames, b)
		return nil
	}
	if err := fits(t, len(b)); err != nil {
		return err
	}
	if r.kind == reflect.Uint8 && r.width == 1 {
		e.length(uint64(len(b)), codeBin8, codeBin16, codeBin32, 0)
	} else {
		e.ext(extNumbers, n+len(b))
		e.buf = append(e.buf, head[:n]...)
	}
	e.buf = append(e.buf, b...)
	return nil
}

// numbers reads runs of the given shape. It returns their bytes, and whether these are a frame of
// their own.
func (d *decoder) numbers(t reflect.Type, want run) (b []byte, own bool, err error) {
	tok, err := d.token()
	if err != nil {
		return nil, false, typed(err, t)
	}
	r, b, err := d.run(tok)
	if err != nil {
		return nil, false, typed(err, t)
	}
	if wireKind(r.kind) != wireKind(want.kind) || r.width != want.width {
		return nil, false, fail(t, "found numbers of another type, %s", r)
	}
	return b, tok.sub == extFrame, nil
}

func (r run) String() string {
	if r.width == 1 {
		return r.kind.String()
	}
	return "rows of " + r.kind.String()
}

// run reads the shape and the bytes of the runs whose head is tok.
func (d *decoder) run(tok token) (run, []byte, error) {
	r := run{reflect.Uint8, 1}
	switch {
	case tok.class == classBinary:
		return r, d.take(tok.n), nil
	case tok.class != classExt || tok.sub != extNumbers && tok.sub != extFrame:
		return r, nil, fail(nil, "found %s instead of numbers", tok)
	case tok.n == 0:
		return r, nil, fail(nil, "numbers of an unknown kind")
	}
	b := d.take(tok.n)
	r.kind = reflect.Kind(b[0] &^ (grid | narrowBits))
	how := b[0] & narrowBits
	n := 1
	if b[0]&grid != 0 {
		w, m := binary.Uvarint(b[1:])
		if m <= 0 || w <= 1 || w > maxWidth {
			return r, nil, fail(nil, "numbers in rows of an invalid length")
		}
		r.width, n = int(w), 1+m
	}
	if r.kind < reflect.Bool || r.kind > reflect.Complex128 {
		return r, nil, fail(nil, "numbers of an unknown kind")
	}
	b = b[n:]
	if tok.sub == extFrame {
		if len(b) > 0 || len(d.frames) == 0 {
			return r, nil, fail(nil, "a frame is missing")
		}
		b, d.frames = d.frames[0], d.frames[1:]
	}
	if how != 0 {
		wide, ok := widen(r.kind, b, how)
		if !ok {
			return r, nil, fail(nil, "%d bytes are not narrow integers", len(b))
		}
		b = wide
	}
	if len(b)%r.size() != 0 {
		return r, nil, fail(nil, "%d bytes are not a whole number of %s", len(b), r)
	}
	if r.kind == reflect.Bool && !bools(b) {
		return r, nil, fail(nil, "found a bool that is neither true nor false")
	}
	return r, b, nil
}

// bools reports whether every byte is 0 or 1: any other value is not a bool to Go.
func bools(b []byte) bool {
	var all uint64
	for ; len(b) >= 8; b = b[8:] {
		all |= binary.NativeEndian.Uint64(b)
	}
	for _, c := range b {
		all |= uint64(c)
	}
	return all&^0x0101010101010101 == 0
}
