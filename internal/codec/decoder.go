package codec

import (
	"bytes"
	"io"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// decoder reads the first frame, as a msgpack.Decoder, and hands out the others in order. The
// msgpack.Decoder trusts lengths, takes one kind of value for another, and does not limit nesting: it is
// asked only for what has been checked here.
type decoder struct {
	*msgpack.Decoder
	in     bytes.Reader
	buf    []byte   // what in reads
	all    [][]byte // the other frames
	frames [][]byte // those of them that have not been handed out
	depth  int
	methods

	listed  func(x any) bool // nil for nothing
	listing []any
	each    bool     // an element of the outermost slice fails alone
	failed  []*Error // the errors of those that have
	at      place    // where the last of these elements begins
}

var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.Decoder = msgpack.NewDecoder(&d.in)
	return d
}}

func getDecoder(frames [][]byte) *decoder {
	d := decoders.Get().(*decoder)
	d.buf, d.all, d.frames = frames[0], frames[1:], frames[1:]
	d.in.Reset(d.buf)
	return d
}

func (d *decoder) put() {
	d.in.Reset(nil)
	d.buf, d.all, d.frames, d.depth, d.listed, d.listing, d.methods, d.each, d.failed = nil, nil, nil, 0, nil, nil, methods{}, false, nil
	decoders.Put(d)
}

// enter counts levels of nesting, which leave d.depth again only after success.
func (d *decoder) enter(t reflect.Type, levels int) error {
	if d.depth+levels > maxDepth {
		return fail(t, "nested more than %d levels deep", maxDepth)
	}
	d.depth += levels
	return nil
}

// class is the kind of value that a code of msgpack begins.
type class byte

const (
	classNil class = iota
	classBoxed
	classBool
	classInt
	classFloat
	classString
	classBinary
	classArray
	classMap
	classExt
	classEnd
)

var classNames = [...]string{"nil", "a pointer to nil", "a bool", "an integer", "a float", "a string",
	"bytes", "an array", "a map", "an extension", "the end"}

func (c class) String() string { return classNames[c] }

// classes maps each code of msgpack to its class.
var classes = func() (classes [256]class) {
	for code := range classes {
		classes[code] = classOf(byte(code))
	}
	return classes
}()

func classOf(code byte) class {
	switch {
	case msgpcode.IsFixedNum(code), code >= msgpcode.Uint8 && code <= msgpcode.Int64:
		return classInt
	case msgpcode.IsString(code):
		return classString
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return classMap
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return classArray
	case msgpcode.IsExt(code):
		return classExt
	case msgpcode.IsBin(code):
		return classBinary
	case code == msgpcode.Float, code == msgpcode.Double:
		return classFloat
	case code == msgpcode.Nil:
		return classNil
	case code == codeBoxed:
		return classBoxed
	default:
		return classBool
	}
}

// next returns the class and the code of the next value, which it does not consume: classEnd and 0
// if there is none.
func (d *decoder) next() (class, byte) {
	rest := d.buf[len(d.buf)-d.in.Len():]
	if len(rest) == 0 {
		return classEnd, 0
	}
	return classes[rest[0]], rest[0]
}

// is reports whether code, which is not 0, is next, and consumes it.
func (d *decoder) is(code byte) bool {
	_, c := d.next()
	if c == code {
		d.take(1)
	}
	return c == code
}

// want returns the code of the next value, or an error unless its class is c.
func (d *decoder) want(t reflect.Type, c class) (code byte, err error) {
	found, code := d.next()
	switch {
	case found == c:
		return code, nil
	case found == classExt:
		id, _, err := d.extension(t)
		if err != nil {
			return 0, err
		}
		return 0, fail(t, "found extension %d instead of %s", id, c)
	case found == classEnd:
		return 0, short(t)
	}
	return 0, fail(t, "found %s instead of %s", found, c)
}

// head reads the head of a value of class c: a string, bytes, an array or a map. It returns the number of
// bytes, elements or entries that follow. Each takes at least a byte, so a length beyond the message is
// refused before memory is taken for it.
func (d *decoder) head(t reflect.Type, c class) (n int, err error) {
	if _, err := d.want(t, c); err != nil {
		return 0, err
	}
	least := 1
	switch c {
	case classArray:
		n, err = d.DecodeArrayLen()
	case classMap:
		n, err = d.DecodeMapLen()
		least = 2
	default:
		n, err = d.DecodeBytesLen()
	}
	if err != nil || n < 0 || n > d.in.Len()/least {
		return 0, short(t)
	}
	return n, nil
}

// text reads a string or bytes, whichever c is.
func (d *decoder) text(t reflect.Type, c class) ([]byte, error) {
	n, err := d.head(t, c)
	return d.take(n), err
}

// extension reads an extension.
func (d *decoder) extension(t reflect.Type) (id int8, content []byte, err error) {
	if _, err := d.want(t, classExt); err != nil {
		return 0, nil, err
	}
	id, n, err := d.DecodeExtHeader()
	if err != nil || n < 0 || n > d.in.Len() {
		return 0, nil, short(t)
	}
	return id, d.take(n), nil
}

// content reads the content of an extension of the given type.
func (d *decoder) content(t reflect.Type, want int8) ([]byte, error) {
	id, b, err := d.extension(t)
	if err == nil && id != want {
		err = fail(t, "found extension %d", id)
	}
	return b, err
}

// take returns the next n bytes, which must exist.
func (d *decoder) take(n int) []byte {
	at := len(d.buf) - d.in.Len()
	d.in.Seek(int64(n), io.SeekCurrent)
	return d.buf[at : at+n : at+n]
}

// skip skips one value, and the frames in it.
func (d *decoder) skip() error {
	values, err := 0, error(nil)
	switch c, _ := d.next(); c {
	case classString, classBinary:
		_, err = d.text(nil, c)
	case classExt:
		var id int8
		id, _, err = d.extension(nil)
		if id == extFrame {
			_, err = d.frame()
		}
	case classArray:
		values, err = d.head(nil, c)
	case classMap:
		values, err = d.head(nil, c)
		values *= 2
	case classBoxed:
		d.take(1)
		values = 1
	default:
		if d.Skip() != nil {
			err = short(nil)
		}
	}
	if err != nil || values == 0 {
		return err
	}
	if err := d.enter(nil, 1); err != nil {
		return err
	}
	for range values {
		if err := d.skip(); err != nil {
			return err
		}
	}
	d.depth--
	return nil
}

// frame returns the next frame of numbers.
func (d *decoder) frame() ([]byte, error) {
	if len(d.frames) == 0 {
		return nil, fail(nil, "a frame is missing")
	}
	b := d.frames[0]
	d.frames = d.frames[1:]
	return b, nil
}

// place is a place in what a decoder reads.
type place struct{ in, frames int }

func (d *decoder) mark() place { return place{d.in.Len(), len(d.frames)} }

// pass goes behind an element of the outermost slice that began at a place and
// could not be decoded.
func (d *decoder) pass(from place) error {
	d.in.Reset(d.buf)
	d.in.Seek(int64(len(d.buf)-from.in), io.SeekStart)
	d.frames, d.depth = d.all[len(d.all)-from.frames:], 1
	return d.skip()
}

func short(t reflect.Type) error { return fail(t, "the message ends too early") }

// typed adds the type to an error that has none.
func typed(err error, t reflect.Type) error {
	if e := err.(*Error); e.Type == "" && t != nil {
		e.Type = t.String()
	}
	return err
}
