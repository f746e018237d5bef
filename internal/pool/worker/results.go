package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// send sends the unsent results of the tasks below done, with the other fields
// of r; mu is held. It returns false when no more messages are to be sent.
func (b *batch) send(r wire.Results, done int) bool {
	if b.worker.muted.Load() {
		return false
	}
	now := time.Now()
	r.Batch, r.From, r.Count, r.Nanos = b.ID, b.sent, done-b.sent, int64(now.Sub(b.mark))
	n := 0
	for n < len(b.errors) && b.errors[n].Index < done {
		n++
	}
	r.Errors = b.errors[:n]
	b.errors = b.errors[n:]
	var value [][]byte
	var named any
	if n < r.Count && b.tasks != nil {
		var err error
		if value, named, err = b.tasks.Results(b.sent, done); err != nil {
			r.Errors = b.unencodable(r.Errors, done)
			if value, named, err = b.tasks.Results(b.sent, done); err != nil {
				value = nil // zero values always encode
			}
		}
	}
	b.sent, b.mark = done, now
	return b.transmit(r, value, named)
}

// transmit sends a message. It blocks until the message is in the socket if its
// values are large, since those are not copied, or if it announces a start.
// Objects that the values name are kept until the pool holds them.
func (b *batch) transmit(r wire.Results, value [][]byte, named any) bool {
	r.Parcel = b.worker.keep(named)
	frames, err := r.Pack(value)
	if err != nil {
		panic(err) // impossible: numbers and strings
	}
	if len(value) > 1 || r.Started >= 0 {
		err = b.worker.link.Send(context.Background(), frames...)
	} else {
		err = b.worker.link.Post(frames...)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) {
		b.worker.taken(r.Parcel)
		return b.divide(r, err)
	}
	return err == nil
}

// divide sends results that are too large for one message in two. A single
// result that is too large fails its task.
func (b *batch) divide(r wire.Results, cause error) bool {
	if r.Count == 1 {
		e := b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", cause))
		r.Errors = []wire.TaskError{{Index: r.From, Err: *e}}
		return b.transmit(r, nil, nil)
	}
	first, second := r, r
	first.Count = r.Count / 2
	first.Started, first.Ended, first.Stuck, first.Nanos = -1, false, false, r.Nanos*int64(first.Count)/int64(r.Count)
	second.From, second.Count, second.Nanos = r.From+first.Count, r.Count-first.Count, r.Nanos-first.Nanos
	n := 0
	for n < len(r.Errors) && r.Errors[n].Index < second.From {
		n++
	}
	first.Errors, second.Errors = r.Errors[:n], r.Errors[n:]
	for _, half := range []wire.Results{first, second} {
		var value [][]byte
		var named any
		if len(half.Errors) < half.Count {
			value, named, _ = b.tasks.Results(half.From, half.From+half.Count) // it was encoded before
		}
		if !b.transmit(half, value, named) {
			return false
		}
	}
	return true
}

// unencodable finds the outputs that cannot be encoded, sets them to zero and
// adds their errors to errs, in order of index.
func (b *batch) unencodable(errs []wire.TaskError, done int) []wire.TaskError {
	failed := map[int]wire.TaskError{}
	for _, e := range errs {
		failed[e.Index] = e
	}
	var all []wire.TaskError
	for i := b.sent; i < done; i++ {
		if _, ok := failed[i]; !ok {
			if _, _, err := b.tasks.Results(i, i+1); err != nil {
				b.tasks.Clear(i)
				if at := (*codec.Error)(nil); errors.As(err, &at) && at.Index >= 0 {
					at.Index = b.Lo + i
				}
				e := b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", err))
				failed[i] = wire.TaskError{Index: i, Err: *e}
			}
		}
		if e, ok := failed[i]; ok {
			all = append(all, e)
		}
	}
	return all
}

// flush sends the results that the running batches have so far.
func (w *Worker) flush() {
	w.mu.Lock()
	var behind []*batch
	for b := range w.running {
		if b.flushed() {
			behind = append(behind, b)
		}
	}
	w.flushing = len(behind) > 0
	if w.flushing {
		w.flusher.Reset(flushInterval)
	}
	w.mu.Unlock()
	for _, b := range behind {
		b.mu.Lock()
		if started := b.started(); b.tasks != nil && started-1 > b.sent {
			b.send(wire.Results{Started: -1}, started-1)
		}
		b.mu.Unlock()
	}
}

// keep keeps what results name alive until the pool holds it; see taken.
func (w *Worker) keep(named any) (parcel uint64) {
	if named == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parcels == nil {
		w.parcels = map[uint64]any{}
	}
	w.parcel++
	w.parcels[w.parcel] = named
	return w.parcel
}

// taken releases what the pool now holds.
func (w *Worker) taken(parcel uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.parcels, parcel)
	w.rest()
}
