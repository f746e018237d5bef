package codec

import (
	"bytes"
	"math"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// What becomes a frame of its own, so that it is not copied.
const (
	FrameMin   = 32 << 10 // bytes, at least
	FrameCount = 200      // frames, at most, in one value
)

const (
	maxDepth   = 1000
	keepBuffer = 1 << 20 // a longer buffer is handed over instead of copied
)

// encoder writes the first frame, as a msgpack.Encoder, and collects the others.
// The msgpack.Encoder's errors are those of buf, which has none.
type encoder struct {
	*msgpack.Encoder
	buf    bytes.Buffer
	frames [][]byte
	depth  int
	methods

	listed  func(x any) bool // nil for nothing
	listing []any
	sorted  bool     // for a digest: maps in the order of their keys, and no frames but the first
	each    bool     // an element of the outermost slice fails alone
	failed  []*Error // the errors of those that have
	at      mark     // where the last of these elements begins
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.Encoder = msgpack.NewEncoder(&e.buf)
	return e
}}

func getEncoder() *encoder { return encoders.Get().(*encoder) }

func (e *encoder) put() {
	if e.buf.Cap() > 2*keepBuffer {
		e.buf = bytes.Buffer{}
	}
	e.buf.Reset()
	clear(e.frames)
	e.frames, e.depth, e.listed, e.listing, e.methods, e.sorted, e.each, e.failed = e.frames[:0], 0, nil, nil, methods{}, false, false, nil
	encoders.Put(e)
}

func (e *encoder) result() [][]byte {
	frames := make([][]byte, 1+len(e.frames))
	copy(frames[1:], e.frames)
	if e.buf.Len() > keepBuffer {
		frames[0], e.buf = e.buf.Bytes(), bytes.Buffer{}
	} else {
		frames[0] = bytes.Clone(e.buf.Bytes())
	}
	return frames
}

// extension writes an extension whose content is in parts.
func (e *encoder) extension(t reflect.Type, id int8, parts ...[]byte) error {
	n := Size(parts)
	if err := fits(t, n); err != nil {
		return err
	}
	if err := e.EncodeExtHeader(id, n); err != nil {
		return err
	}
	for _, b := range parts {
		e.buf.Write(b)
	}
	return nil
}

// fits returns an error if n is too large a length to be written: msgpack's
// lengths end at 4 GiB.
func fits(t reflect.Type, n int) error {
	if uint64(n) > math.MaxUint32-16 {
		return fail(t, "%d elements or bytes are too many for one message", n)
	}
	return nil
}

// mark is a place in what an encoder has written.
type mark struct{ buf, frames, listing int }

func (e *encoder) mark() mark { return mark{e.buf.Len(), len(e.frames), len(e.listing)} }

// back takes back what was written of an element of the outermost slice, and
// writes nil in its place.
func (e *encoder) back(to mark) {
	e.buf.Truncate(to.buf)
	clear(e.frames[to.frames:])
	e.frames, e.listing, e.depth = e.frames[:to.frames], e.listing[:to.listing], 1
	e.buf.WriteByte(msgpcode.Nil)
}
