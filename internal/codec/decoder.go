package codec

import (
	"reflect"
	"sync"
)

// decoder reads the first frame and hands out the others in order.
type decoder struct {
	buf    []byte
	pos    int
	frames [][]byte
	depth  int
	own    apart

	listed  func(x any) bool // nil for nothing
	listing []any
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func getDecoder(frames [][]byte) *decoder {
	d := decoders.Get().(*decoder)
	d.buf, d.frames = frames[0], frames[1:]
	return d
}

func (d *decoder) put() {
	*d = decoder{}
	decoders.Put(d)
}

func (d *decoder) enter(t reflect.Type) error {
	if d.depth == maxDepth {
		return fail(t, "nested more than %d levels deep", maxDepth)
	}
	d.depth++
	return nil
}

func (d *decoder) leave() { d.depth-- }

func (d *decoder) left() int { return len(d.buf) - d.pos }

// isNil reports whether a nil is next, and consumes it.
func (d *decoder) isNil() bool {
	if d.pos < len(d.buf) && d.buf[d.pos] == codeNil {
		d.pos++
		return true
	}
	return false
}

// take returns the next n bytes; token has checked that they exist.
func (d *decoder) take(n int) []byte {
	b := d.buf[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return b
}

// want reads the head of the next value and returns an error unless its class
// is c.
func (d *decoder) want(t reflect.Type, c class) (token, error) {
	tok, err := d.token()
	if err != nil || tok.class != c {
		return tok, mismatch(t, tok, c, err)
	}
	return tok, nil
}

// mismatch returns err, if any, or else the error that tok is not of class c.
func mismatch(t reflect.Type, tok token, c class, err error) error {
	if err != nil {
		return typed(err, t)
	}
	return fail(t, "found %s instead of %s", tok, c)
}

// typed adds the type to an error that has none.
func typed(err error, t reflect.Type) error {
	if e := err.(*Error); e.Type == "" {
		e.Type = t.String()
	}
	return err
}

// skip skips one value, and the frames in it.
func (d *decoder) skip() error {
	t, err := d.token()
	if err != nil {
		return err
	}
	values := 0
	switch t.class {
	case classString, classBinary:
		d.pos += t.n
	case classExt:
		d.pos += t.n
		if t.sub == extFrame {
			if len(d.frames) == 0 {
				return fail(nil, "a frame is missing")
			}
			d.frames = d.frames[1:]
		}
	case classArray:
		values = t.n
	case classMap:
		values = 2 * t.n
	case classBoxed:
		values = 1
	}
	if values == 0 {
		return nil
	}
	if err := d.enter(nil); err != nil {
		return err
	}
	defer d.leave()
	for range values {
		if err := d.skip(); err != nil {
			return err
		}
	}
	return nil
}
