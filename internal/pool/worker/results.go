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
// of r; mu is held. An output that cannot be encoded fails its task. Results that
// are too large for one message are sent in halves; a single one fails its task.
// send returns false when no more messages are to be sent.
func (b *batch) send(r wire.Results, done int) bool {
	if b.worker.muted.Load() {
		return false
	}
	now, n := time.Now(), 0
	for n < len(b.errors) && b.errors[n].Index < done {
		n++
	}
	long := 0
	for r.Times = nil; long < len(b.times) && b.times[long].index < done; long++ {
		t := b.times[long]
		r.Times = append(r.Times, wire.TaskTime{Index: t.index, Ago: int64(now.Sub(t.began)), Nanos: int64(t.time)})
	}
	if r.Longest = 0; done > b.sent {
		r.Longest = b.longest.Swap(0)
	}
	took := now.Sub(b.mark)
	r.Batch, r.From, r.Count, r.Nanos, r.Errors = b.ID, b.sent, done-b.sent, int64(took), b.errors[:n]
	cause, err := b.transmit(r)
	switch {
	case cause == nil:
		b.sent, b.mark, b.errors, b.times = done, now, b.errors[n:], b.times[long:]
		return err == nil
	case r.Count > 1:
		b.mark = b.mark.Add(took / 2)
		if !b.send(wire.Results{Started: -1}, b.sent+r.Count/2) {
			return false
		}
		b.mark = b.mark.Add(-took / 2)
		return b.send(r, done)
	}
	b.errors = append([]wire.TaskError{b.unsendable(b.sent, cause)}, b.errors[n:]...)
	return b.send(r, done)
}

// unsendable is the failure of a task whose output cannot be sent.
func (b *batch) unsendable(i int, cause error) wire.TaskError {
	return wire.TaskError{Index: i, Err: *b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", cause))}
}

// withFailed returns errors with those of outputs that cannot be encoded, in the
// order of the tasks. A task that has failed already keeps its error.
func (b *batch) withFailed(errors []wire.TaskError, failed []*codec.Error) []wire.TaskError {
	if len(failed) == 0 {
		return errors
	}
	var all []wire.TaskError
	for _, e := range failed {
		i := e.Index - b.index()
		for len(errors) > 0 && errors[0].Index < i {
			all, errors = append(all, errors[0]), errors[1:]
		}
		if len(errors) == 0 || errors[0].Index > i {
			all = append(all, b.unsendable(i, e))
		}
	}
	return append(all, errors...)
}

// transmit sends a message. It blocks until the message is in the socket if its
// values are large, since those are not copied, or if it announces a start.
// Objects that the values name are kept until the pool holds them. cause says
// why the results can't be sent in one message; err, that none can be sent.
func (b *batch) transmit(r wire.Results) (cause, err error) {
	var value [][]byte
	var named any
	if (len(r.Errors) < r.Count || b.Flags&wire.KeepFailed != 0 && !r.Stuck) && b.tasks != nil {
		var failed []*codec.Error
		if value, named, failed, err = b.tasks.Results(b.ctx, r.From, r.From+r.Count); err != nil {
			return err, nil
		}
		r.Errors = b.withFailed(r.Errors, failed)
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
		return &codec.Error{Index: b.index() + r.From, Reason: size.Error(), Err: size}, nil
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
