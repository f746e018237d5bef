package codec

import (
	"encoding/binary"
	"math"
	"reflect"
	"sync"
)

const (
	maxDepth   = 1000
	frameMin   = 32 << 10 // numbers of at least so many bytes get a frame of their own
	frameCount = 200      // the most such frames in one value
	keepBuffer = 1 << 20  // a longer buffer is handed over instead of copied
)

// encoder appends to the first frame and collects the others. As an io.Writer it serves msgpack.Encoder.
type encoder struct {
	buf    []byte
	frames [][]byte
	depth  int
	own    apart

	listed  func(x any) bool // nil for nothing
	listing []any
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

func getEncoder() *encoder { return encoders.Get().(*encoder) }

func (e *encoder) put() {
	clear(e.frames)
	if cap(e.buf) > 2*keepBuffer {
		e.buf = nil
	}
	*e = encoder{buf: e.buf[:0], frames: e.frames[:0]}
	encoders.Put(e)
}

func (e *encoder) result() [][]byte {
	frames := make([][]byte, 1+len(e.frames))
	copy(frames[1:], e.frames)
	if len(e.buf) > keepBuffer {
		frames[0], e.buf = e.buf, nil
	} else {
		frames[0] = append(make([]byte, 0, len(e.buf)), e.buf...)
	}
	return frames
}

func (e *encoder) enter(t reflect.Type) error {
	if e.depth == maxDepth {
		return fail(t, "nested more than %d levels deep, or a cycle", maxDepth)
	}
	e.depth++ // only on success: after an error the caller does not call leave
	return nil
}

func (e *encoder) leave() { e.depth-- }

// Write appends p.
func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	return len(p), nil
}

// WriteByte appends c.
func (e *encoder) WriteByte(c byte) error {
	e.buf = append(e.buf, c)
	return nil
}

func (e *encoder) nil() { e.buf = append(e.buf, codeNil) }

func (e *encoder) bool(b bool) {
	c := byte(codeFalse)
	if b {
		c = codeTrue
	}
	e.buf = append(e.buf, c)
}

func (e *encoder) int(n int64) {
	switch {
	case n >= 0:
		e.uint(uint64(n))
	case n >= -32:
		e.buf = append(e.buf, byte(n))
	case n >= math.MinInt8:
		e.buf = append(e.buf, codeInt8, byte(n))
	case n >= math.MinInt16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, codeInt16), uint16(n))
	case n >= math.MinInt32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, codeInt32), uint32(n))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, codeInt64), uint64(n))
	}
}

func (e *encoder) uint(n uint64) {
	if n <= math.MaxInt8 {
		e.buf = append(e.buf, byte(n))
		return
	}
	e.length(n, codeUint8, codeUint16, codeUint32, codeUint64)
}

// length appends the narrowest code that holds n, then n; a code of 0 does not
// exist.
func (e *encoder) length(n uint64, c8, c16, c32, c64 byte) {
	switch {
	case n <= math.MaxUint8 && c8 != 0:
		e.buf = append(e.buf, c8, byte(n))
	case n <= math.MaxUint16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, c16), uint16(n))
	case n <= math.MaxUint32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, c32), uint32(n))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, c64), n)
	}
}

func (e *encoder) float32(f float32) {
	e.buf = binary.BigEndian.AppendUint32(append(e.buf, codeFloat32), math.Float32bits(f))
}

func (e *encoder) float64(f float64) {
	e.buf = binary.BigEndian.AppendUint64(append(e.buf, codeFloat64), math.Float64bits(f))
}

func (e *encoder) string(s string) {
	if len(s) < 32 {
		e.buf = append(e.buf, codeFixedString|byte(len(s)))
	} else {
		e.length(uint64(len(s)), codeStr8, codeStr16, codeStr32, 0)
	}
	e.buf = append(e.buf, s...)
}

func (e *encoder) array(n int) {
	if n < 16 {
		e.buf = append(e.buf, codeFixedArray|byte(n))
	} else {
		e.length(uint64(n), 0, codeArray16, codeArray32, 0)
	}
}

func (e *encoder) mapLen(n int) {
	if n < 16 {
		e.buf = append(e.buf, codeFixedMap|byte(n))
	} else {
		e.length(uint64(n), 0, codeMap16, codeMap32, 0)
	}
}

// ext writes the head of an extension of n bytes.
func (e *encoder) ext(id int8, n int) {
	switch n {
	case 1:
		e.buf = append(e.buf, codeFixExt1)
	case 2:
		e.buf = append(e.buf, codeFixExt1+1)
	case 4:
		e.buf = append(e.buf, codeFixExt1+2)
	case 8:
		e.buf = append(e.buf, codeFixExt1+3)
	case 16:
		e.buf = append(e.buf, codeFixExt1+4)
	default:
		e.length(uint64(n), codeExt8, codeExt16, codeExt32, 0)
	}
	e.buf = append(e.buf, byte(id))
}

// fits returns an error if n is too large a length to be written: msgpack's
// lengths end at 4 GiB.
func fits(t reflect.Type, n int) error {
	if uint64(n) > math.MaxUint32-16 {
		return fail(t, "%d elements or bytes are too many for one message", n)
	}
	return nil
}
