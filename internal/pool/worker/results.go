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
// of r; mu is held. Results that cannot be encoded, or are too large for one
// message, are sent in halves; a single one fails its task. send returns false
// when no more messages are to be sent.
func (b *batch) send(r wire.Results, done int) bool {
	if b.worker.muted.Load() {
		return false
	}
	now, n := time.Now(), 0
	for n < len(b.errors) && b.errors[n].Index < done {
		n++
	}
	took := now.Sub(b.mark)
	r.Batch, r.From, r.Count, r.Nanos, r.Errors = b.ID, b.sent, done-b.sent, int64(took), b.errors[:n]
	cause, err := b.transmit(r)
	switch {
	case cause == nil:
		b.sent, b.mark, b.errors = done, now, b.errors[n:]
		return err == nil
	case r.Count > 1:
		b.mark = b.mark.Add(took / 2)
		if !b.send(wire.Results{Started: -1}, b.sent+r.Count/2) {
			return false
		}
		b.mark = b.mark.Add(-took / 2)
		return b.send(r, done)
	}
	if at := (*codec.Error)(nil); errors.As(cause, &at) && at.Index >= 0 {
		at.Index = b.Lo + b.sent
	}
	e := b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", cause))
	b.errors = append([]wire.TaskError{{Index: b.sent, Err: *e}}, b.errors[n:]...)
	return b.send(r, done)
}

// transmit sends a message. It blocks until the message is in the socket if its
// values are large, since those are not copied, or if it announces a start.
// Objects that the values name are kept until the pool holds them. cause says
// why the results can't be sent in one message; err, that none can be sent.
func (b *batch) transmit(r wire.Results) (cause, err error) {
	var value [][]byte
	var named any
	if len(r.Errors) < r.Count && b.tasks != nil {
		if value, named, err = b.tasks.Results(b.ctx, r.From, r.From+r.Count); err != nil {
			return err, nil
		}
	}
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
		return err, nil
	}
	return nil, err
}

// keep keeps what results name alive until the pool holds it; see taken.
func (w *Worker) keep(named any) (parcel uint64) {
	if named == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
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
