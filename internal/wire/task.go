package wire

import "slices"

// Batch hands a worker the tasks Lo to Lo+Count-1 of a call. Its value is the
// slice of their inputs.
type Batch struct {
	ID      uint64
	Call    uint64
	Lo      int
	Count   int
	Func    []byte
	Timeout int64    // nanoseconds for one task, 0 for none
	Left    int64    // nanoseconds until the caller's deadline, 0 for none
	Attempt int      // which one of the first task this is, from 1
	Seed    uint64   // of the call
	Keys    []uint64 // of the tasks; nil where their indices are
	Flags   Flags
}

// Flags of a batch.
type Flags byte

// The flags.
const (
	// Announce: the worker reports each task before it begins, so that the started
	// tasks of a lost worker are known exactly.
	Announce Flags = 1 << iota
	// Inline: tasks so short that the goroutine that reads may run them.
	Inline
	// StopOnError: tasks after a failed one are not run.
	StopOnError
	// Single: there is one task; errors name no element.
	Single
	// KeepFailed: what a function returns beside its error is sent as well.
	KeepFailed
	// Begun: the only task begins as soon as the batch comes, and is not reported before it ends.
	Begun
	// Timed: results say how long each task took, as far as that is a millisecond or more, and the longest of the others.
	Timed
)

// Pack makes the message; value is the encoded inputs.
func (g *Batch) Pack(value [][]byte) [][]byte {
	numbers := []uint64{g.ID, g.Call, uint64(g.Lo), uint64(g.Count), uint64(g.Timeout), uint64(g.Left), uint64(g.Attempt), g.Seed, uint64(len(g.Keys))}
	return behind(KindBatch, byte(g.Flags), append(numbers, g.Keys...), slices.Concat([][]byte{g.Func}, value))
}

// Unpack decodes the message; the value is frames[1:].
func (g *Batch) Unpack(frames [][]byte) error {
	flags, r := fieldsOf(frames, KindBatch)
	g.Flags = Flags(flags)
	g.ID, g.Call = r.Uvarint(), r.Uvarint()
	g.Lo, g.Count = r.Int(), r.Int()
	g.Timeout, g.Left = int64(r.Int()), int64(r.Int())
	g.Attempt = r.Int()
	g.Seed = r.Uvarint()
	g.Keys = nil
	for n := r.Int(); n > 0 && r.Err == nil; n-- {
		g.Keys = append(g.Keys, r.Uvarint())
	}
	if r.Err == nil && len(g.Keys) > 0 && len(g.Keys) != g.Count {
		return ErrMalformed
	}
	g.Func = r.B
	return r.Err
}

// Results reports the outcome of tasks From to From+Count-1 of a batch, counted
// from its first. Its value is the slice of their outputs.
type Results struct {
	Batch   uint64
	From    int
	Count   int
	Started int   // the task that begins now, or -1
	Ended   bool  // the batch has freed its slot in the worker
	Stuck   bool  // the last of these tasks goes on although its time is up
	Nanos   int64 // spent running the Count tasks
	Errors  []TaskError
	Parcel  uint64 // if the outputs name objects, the number for Taken; else 0
	Times   []TaskTime
	Longest int64 // nanoseconds of the longest task that is not in Times, 0 if that is not known
}

// TaskTime says how long a task took.
type TaskTime struct {
	Index int   // counted from the batch's first
	Ago   int64 // nanoseconds from its beginning until the message was sent
	Nanos int64
}

// Taken says that the receiver of a Results holds the objects that its parcel
// names.
type Taken struct{ Parcel uint64 }

// TaskError is the failure of one task of a Results.
type TaskError struct {
	Index int // counted from the batch's first task
	Err   Error
}

// Pack makes the message; value is the encoded outputs.
func (r *Results) Pack(value [][]byte) ([][]byte, error) {
	flags := byte(0)
	if r.Ended {
		flags |= 1
	}
	if r.Stuck {
		flags |= 2
	}
	var tail []byte
	if len(r.Errors) > 0 {
		flags |= 4
		errs, err := Pack(KindResults, r.Errors)
		if err != nil {
			return nil, err
		}
		tail = errs[0]
	}
	numbers := []uint64{r.Batch, uint64(r.From), uint64(r.Count), uint64(r.Started + 1), uint64(r.Nanos), r.Parcel}
	if len(r.Times) > 0 || r.Longest > 0 {
		flags |= 8
		numbers = append(numbers, uint64(r.Longest), uint64(len(r.Times)))
		for _, t := range r.Times {
			numbers = append(numbers, uint64(t.Index), uint64(t.Ago), uint64(t.Nanos))
		}
	}
	return behind(KindResults, flags, numbers, slices.Concat([][]byte{tail}, value)), nil
}

// Unpack decodes the message; the value is frames[1:].
func (r *Results) Unpack(frames [][]byte) error {
	flags, in := fieldsOf(frames, KindResults)
	r.Ended, r.Stuck = flags&1 != 0, flags&2 != 0
	r.Batch = in.Uvarint()
	r.From, r.Count = in.Int(), in.Int()
	r.Started = in.Int() - 1
	r.Nanos = int64(in.Int())
	r.Parcel = in.Uvarint()
	r.Longest, r.Times = 0, nil
	if flags&8 != 0 {
		r.Longest = int64(in.Int())
		for n := in.Int(); n > 0 && in.Err == nil; n-- {
			r.Times = append(r.Times, TaskTime{in.Int(), int64(in.Int()), int64(in.Int())})
		}
	}
	if in.Err != nil {
		return in.Err
	}
	if flags&4 != 0 {
		return Unpack([][]byte{in.B}, &r.Errors)
	}
	return nil
}

// Returned lists the tasks that a worker gives back, because it is asked to or
// because it leaves.
type Returned struct {
	Batches []Remainder
	Leaving bool // the worker takes no more tasks, and ends when those that run have finished
	Broken  bool // since a task has said that it is to be replaced
}

// Remainder is the part of one batch that is given back: the tasks from From on,
// counted from the batch's first.
type Remainder struct {
	Batch uint64
	From  int
}

// Cancel cancels a call's tasks from From on, counted from the call's first,
// running ones included.
type Cancel struct {
	Call uint64
	From int
}
