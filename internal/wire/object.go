package wire

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
)

// Visit is a process's first message to the home of an object.
type Visit struct{ Name string }

// HomeBye is the last message of a home to a process that uses its objects. Closed
// says that the user has closed the home.
type HomeBye struct{ Closed bool }

// Request asks an object to do something. It is also the form of KindGiveUp,
// KindHold, KindRelease, KindTaken and KindNotice, which need fewer fields.
type Request struct {
	ID     uint64 // 0 if no answer is wanted
	Object uint64
	Op     byte // the operation, in the object's own numbers

	// Left is the time until the requester stops waiting for the answer, rounded up
	// to microseconds. It then sends a KindGiveUp. 0 means that it does not stop.
	Left time.Duration
}

// Pack makes a message of a kind of what it says, whose first frame it changes.
func (r *Request) Pack(kind Kind, says ...[]byte) [][]byte {
	if r.Left > 0 {
		return behind(kind, r.Op, []uint64{r.ID<<1 | 1, r.Object, uint64((r.Left + time.Microsecond - 1) / time.Microsecond)}, says)
	}
	return behind(kind, r.Op, []uint64{r.ID << 1, r.Object}, says)
}

// Unpack decodes the message, and leaves in frames what it says.
func (r *Request) Unpack(frames [][]byte) error {
	op, in := fieldsOf(frames, KindOf(frames))
	r.Op = op
	id, left := in.Uvarint(), uint64(0)
	r.ID, r.Object = id>>1, in.Uvarint()
	if id&1 > 0 {
		left = in.Uvarint()
	}
	r.Left = time.Duration(min(left, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
	copy(frames, [][]byte{in.B})
	return in.Err
}

// Reply answers a request.
type Reply struct {
	ID    uint64
	Code  byte // 0 if the object did what it was asked
	Names bool // the answer names objects, which are held until the reply has been taken
}

// named is Reply.Names, in the byte of the code.
const named = 0x80

// Pack makes the message of what it says, whose first frame it changes.
func (r *Reply) Pack(says ...[]byte) [][]byte {
	code := r.Code
	if r.Names {
		code |= named
	}
	return behind(KindReply, code, []uint64{r.ID}, says)
}

// Unpack decodes the message, and leaves in frames what it says.
func (r *Reply) Unpack(frames [][]byte) error {
	code, in := fieldsOf(frames, KindReply)
	r.Code, r.Names = code&^named, code&named != 0
	r.ID = in.Uvarint()
	copy(frames, [][]byte{in.B})
	return in.Err
}

// behind puts frames behind the head of a message that is packed by hand: its
// kind, a code, and numbers. The head goes into the first frame.
func behind(kind Kind, code byte, numbers []uint64, frames [][]byte) [][]byte {
	if len(frames) == 0 {
		frames = make([][]byte, 1)
	}
	head := make([]byte, 0, 2+len(numbers)*binary.MaxVarintLen64+len(frames[0]))
	head = append(head, byte(kind), code)
	for _, n := range numbers {
		head = binary.AppendUvarint(head, n)
	}
	frames[0] = append(head, frames[0]...)
	return frames
}

// fieldsOf returns the code of a message that behind has made, and a Reader of
// the rest of the first frame.
func fieldsOf(frames [][]byte, kind Kind) (code byte, in Reader) {
	if kind == 0 || KindOf(frames) != kind || len(frames[0]) < 2 {
		return 0, Reader{Err: ErrMalformed}
	}
	return frames[0][1], Reader{B: frames[0][2:]}
}

// Reader takes numbers, strings and parts off the front of B and Frames. After an
// error it returns zero values.
type Reader struct {
	B      []byte
	Frames [][]byte // of large parts
	Shares bool     // all parts share the memory of the message; else small ones are copied, since one that is kept would keep all of it
	Err    error
}

// Uvarint takes a number.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Err, r.B = ErrMalformed, nil
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Int takes a number that fits an int.
func (r *Reader) Int() int {
	v := r.Uvarint()
	if v > math.MaxInt/2 { // room for what is added to it
		r.Err, r.B = ErrMalformed, nil
		return 0
	}
	return int(v)
}

// Bytes takes n bytes. If there are fewer, that is an error.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > len(r.B) {
		r.Err, r.B = ErrMalformed, nil
		return nil
	}
	b := r.B[:n:n]
	r.B = r.B[n:]
	return b
}

// String takes a string that AppendString has written.
func (r *Reader) String() string { return string(r.Bytes(r.Int())) }

// Count takes the number of things that follow, of which each takes at least a
// byte of B.
func (r *Reader) Count() int {
	n := r.Int()
	if n > len(r.B) {
		r.Err, r.B = ErrMalformed, nil
		return 0
	}
	return n
}

// Part takes bytes that AppendPart has written.
func (r *Reader) Part() []byte {
	n := r.Int()
	switch {
	case n > 0 && r.Shares:
		return r.Bytes(n - 1)
	case n > 0:
		return append([]byte{}, r.Bytes(n-1)...)
	case r.Err == nil && len(r.Frames) > 0:
		part := r.Frames[0]
		r.Frames = r.Frames[1:]
		return part
	}
	r.Err, r.B = ErrMalformed, nil
	return nil
}

// End returns the error, or one if something is left.
func (r *Reader) End() error {
	if r.Err == nil && len(r.B)+len(r.Frames) > 0 {
		return ErrMalformed
	}
	return r.Err
}

// AppendPart appends bytes: many of them to frames, uncopied, others to b with
// their length before them.
func AppendPart(b []byte, frames [][]byte, part []byte) ([]byte, [][]byte) {
	if len(part) >= codec.FrameMin && len(frames) < codec.FrameCount {
		return append(b, 0), append(frames, part)
	}
	return append(AppendUvarint(b, uint64(len(part))+1), part...), frames
}

// AppendString appends a string, with its length before it.
func AppendString(b []byte, s string) []byte {
	return append(AppendUvarint(b, uint64(len(s))), s...)
}

// AppendUvarint appends a number.
func AppendUvarint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }
