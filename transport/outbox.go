package transport

import "sync"

const (
	chunkSize = 32 << 10
	copyLimit = 4 << 10 // pieces up to this size are copied, larger ones referenced
	maxPieces = 64      // buffers in one system call
)

// outbox holds framed bytes on their way to the socket, in order. Small pieces
// are copied side by side into chunks; large ones are kept by reference. The
// writer's lock guards it.
type outbox struct {
	segs  []segment
	first int    // segs[first:] are queued
	head  uint64 // how many segments have ever left: the number of segs[first]
	taken uint64 // segments below this number are in a write right now
	cut   bool   // a part of segs[first] has left
	bytes int64
	tail  *chunk // where the next small piece goes
	apart bool   // the next small piece begins a segment
}

type segment struct {
	buf   []byte
	chunk *chunk // holds buf; nil for a referenced piece
}

type chunk struct {
	used int // bytes
	live int // segments in it that have not left
	buf  [chunkSize]byte
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// add appends p.
func (o *outbox) add(p []byte) {
	if len(p) == 0 {
		return
	}
	o.bytes += int64(len(p))
	if len(p) > copyLimit {
		o.segs = append(o.segs, segment{buf: p})
		o.apart = true
		return
	}
	t := o.tail
	if t == nil || len(p) > chunkSize-t.used {
		if t != nil && t.live == 0 {
			chunks.Put(t)
		}
		t = chunks.Get().(*chunk)
		t.used, t.live = 0, 0
		o.tail, o.apart = t, true
	}
	from := t.used
	t.used += copy(t.buf[from:], p)
	if o.apart || o.first == len(o.segs) {
		o.segs = append(o.segs, segment{buf: t.buf[from:t.used], chunk: t})
		t.live++
		o.apart = false
		return
	}
	last := &o.segs[len(o.segs)-1]
	last.buf = last.buf[:len(last.buf)+len(p)]
}

// end returns the number of the next segment. Bytes added after the call never
// share a segment with earlier ones.
func (o *outbox) end() uint64 {
	o.apart = true
	return o.head + uint64(len(o.segs)-o.first)
}

// gather appends the next pieces to dst, up to limit pieces in all, and marks
// them taken.
func (o *outbox) gather(dst [][]byte, limit int) [][]byte {
	i := o.first
	for ; i < len(o.segs) && len(dst) < limit; i++ {
		if len(o.segs[i].buf) > 0 {
			dst = append(dst, o.segs[i].buf)
		}
	}
	o.taken = o.head + uint64(i-o.first)
	return dst
}

// advance removes n written bytes from the front; no segment is marked taken
// any more.
func (o *outbox) advance(n int) {
	o.taken = 0
	o.bytes -= int64(n)
	for o.first < len(o.segs) {
		s := &o.segs[o.first]
		if n < len(s.buf) {
			o.cut = o.cut || n > 0
			s.buf = s.buf[n:]
			break
		}
		n -= len(s.buf)
		o.pop()
	}
	o.compact()
}

// drop empties segments from to to-1 and returns true, unless one of them has
// begun to leave.
func (o *outbox) drop(from, to uint64) bool {
	if from < max(o.head, o.taken) || from == o.head && o.cut {
		return false
	}
	for i := from; i < to; i++ {
		s := &o.segs[o.first+int(i-o.head)]
		o.bytes -= int64(len(s.buf))
		s.buf = nil
	}
	for o.first < len(o.segs) && len(o.segs[o.first].buf) == 0 {
		o.pop()
	}
	o.compact()
	return true
}

func (o *outbox) pop() {
	s := &o.segs[o.first]
	if c := s.chunk; c != nil {
		if c.live--; c.live == 0 && c != o.tail {
			chunks.Put(c)
		}
	}
	*s = segment{}
	o.first++
	o.head++
	o.cut = false
}

// compact keeps the slice short, and returns the chunk of an empty outbox to
// the pool.
func (o *outbox) compact() {
	switch {
	case o.first == len(o.segs):
		if cap(o.segs) > maxPieces {
			o.segs = nil
		}
		o.segs, o.first = o.segs[:0], 0
		if o.tail != nil {
			chunks.Put(o.tail)
			o.tail = nil
		}
	case o.first > maxPieces && o.first > len(o.segs)/2:
		n := copy(o.segs, o.segs[o.first:])
		clear(o.segs[n:])
		o.segs, o.first = o.segs[:n], 0
	}
}
