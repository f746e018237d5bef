package transport

import (
	"bytes"
	"slices"
	"sync"
)

const (
	chunkSize = 32 << 10
	copyLimit = 4 << 10 // pieces up to this size are copied, larger ones referenced
	maxPieces = 64      // buffers in one system call
)

// outbox holds framed bytes on their way to the socket, in order. Small pieces
// are copied side by side into chunks; large ones are kept by reference. The
// writer's lock guards it.
type outbox struct {
	segs  [][]byte
	few   [4][]byte // where segs begins
	head  uint64    // how many segments have ever left: the number of segs[0]
	taken uint64    // segments below this number are in a write right now
	cut   bool      // a part of segs[0] has left
	bytes int64
	tail  *chunk // where the next small piece goes
	full  []full // chunks before it, as long as there are segments in them
	apart bool   // the next small piece begins a segment
}

// full is a chunk without room, and the number behind its last segment.
type full struct {
	*chunk
	end uint64
}

// chunk is not used again while there is a segment in it.
type chunk struct {
	used int // bytes
	buf  [chunkSize]byte
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// add appends p.
func (o *outbox) add(p []byte) {
	if len(p) == 0 {
		return
	}
	o.bytes += int64(len(p))
	if len(o.segs) == 0 {
		o.segs, o.apart = o.few[:0], true
	}
	if len(p) > copyLimit {
		o.segs = append(o.segs, p)
		o.apart = true
		return
	}
	t := o.tail
	if t == nil || len(p) > chunkSize-t.used {
		if t != nil {
			o.full = append(o.full, full{t, o.head + uint64(len(o.segs))})
		}
		t = chunks.Get().(*chunk)
		t.used = 0
		o.tail, o.apart = t, true
	}
	from := t.used
	t.used += copy(t.buf[from:], p)
	if o.apart {
		o.segs = append(o.segs, t.buf[from:t.used])
		o.apart = false
		return
	}
	last := &o.segs[len(o.segs)-1]
	*last = (*last)[:len(*last)+len(p)]
}

// end returns the number of the next segment. Bytes added after the call never
// share a segment with earlier ones.
func (o *outbox) end() uint64 {
	o.apart = true
	return o.head + uint64(len(o.segs))
}

// gather appends the next pieces to dst, up to limit pieces in all, and marks
// them taken.
func (o *outbox) gather(dst [][]byte, limit int) [][]byte {
	i := 0
	for ; i < len(o.segs) && len(dst) < limit; i++ {
		if len(o.segs[i]) > 0 {
			dst = append(dst, o.segs[i])
		}
	}
	o.taken = o.head + uint64(i)
	return dst
}

// advance removes n written bytes from the front; no segment is marked taken
// any more.
func (o *outbox) advance(n int) {
	o.taken = 0
	o.bytes -= int64(n)
	for len(o.segs) > 0 && n >= len(o.segs[0]) {
		n -= len(o.segs[0])
		o.pop()
	}
	if n > 0 {
		o.cut = true
		o.segs[0] = o.segs[0][n:]
	}
}

// drop empties segments from to to-1 and returns true, unless one of them has
// begun to leave.
func (o *outbox) drop(from, to uint64) bool {
	if from < max(o.head, o.taken) || from == o.head && o.cut {
		return false
	}
	for i := from; i < to; i++ {
		s := &o.segs[i-o.head]
		o.bytes -= int64(len(*s))
		*s = nil
	}
	for len(o.segs) > 0 && len(o.segs[0]) == 0 {
		o.pop()
	}
	return true
}

// own copies segments from to to-1, as far as they have not left, so that they
// refer to no memory of others.
func (o *outbox) own(from, to uint64) {
	for i := max(from, o.head); i < to; i++ {
		s := &o.segs[i-o.head]
		*s = bytes.Clone(*s)
	}
}

// pop removes the first segment. The last one of a chunk leaves that to other
// outboxes.
func (o *outbox) pop() {
	o.segs[0] = nil
	o.segs = o.segs[1:]
	o.head++
	o.cut = false
	for len(o.full) > 0 && o.full[0].end <= o.head {
		chunks.Put(o.full[0].chunk)
		o.full = slices.Delete(o.full, 0, 1)
	}
	if len(o.segs) == 0 && o.tail != nil {
		chunks.Put(o.tail)
		o.tail = nil
	}
}
