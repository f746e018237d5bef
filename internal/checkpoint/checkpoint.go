// Package checkpoint is the file in which a call keeps its results: what its records are, and who reads and writes them.
package checkpoint

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
)

// Header is the first record of a file.
type Header struct {
	Func, In, Out string
	Version       string
	Keyed, Inputs bool
	Seed          uint64
	Began         time.Time
}

// Record says which results a record has. Digests of the inputs follow it, if they have no keys, then the encoded slice of
// results, and then that of the inputs.
type Record struct {
	Run     string // the record says only that a process, or a task in it, has begun
	Over    bool   // or that its call has succeeded
	Exe     string // its executable
	Total   int    // how many tasks its call has; 0 if it does not know
	Lo, N   int    // the tasks
	Without []int  // those of them, counted from Lo and in order, that have no result
	Keys    []string
	Inputs  int    // frames
	Digests []byte `msgpack:"-"`
}

// Stretches yields the tasks that have results, from one index to below another, counted from Lo.
func (r *Record) Stretches() iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		lo := 0
		for _, i := range append(slices.Clip(r.Without), r.N) {
			if lo < i && !yield(lo, i) {
				return
			}
			lo = i + 1
		}
	}
}

// magic begins the header, and says how the rest is written.
const magic = "fiber checkpoint 1\n"

// Begin calls each with the records of a file that has the results of a call, with where they are and what follows them,
// and returns the one that says what process had it last. A new file gets the header. A header that is not the wanted one is an
// error; with anySeed, the header's seed becomes the wanted one.
func Begin(file *journal.File, want *Header, anySeed bool, each func(r *Record, offset int64, frames [][]byte) error) (last Record, err error) {
	var found *Header
	err = file.Scan(func(offset int64, frames [][]byte) error {
		if found == nil {
			if found, err = headerOf(frames); err != nil {
				return err
			}
			if anySeed {
				want.Seed = found.Seed
			}
			return found.differs(want)
		}
		r, frames, err := recordOf(frames, found, offset)
		if err != nil {
			return err
		}
		if r.Run != "" {
			last = *r
			return nil
		}
		return each(r, offset, frames)
	})
	if err == nil && found == nil {
		text, _ := msgpack.Marshal(want)
		_, err = file.Append([]byte(magic), text)
	}
	return last, err
}

// Look calls each with the records of a file that a run may be writing to, those that say what processes had it included.
func Look(path string, each func(r *Record, frames [][]byte) error) (h *Header, err error) {
	err = journal.Look(path, func(offset int64, frames [][]byte) error {
		if h == nil {
			h, err = headerOf(frames)
			return err
		}
		r, frames, err := recordOf(frames, h, offset)
		if err != nil {
			return err
		}
		return each(r, frames)
	})
	if err == nil && h == nil {
		err = errors.New("it has nothing yet")
	}
	return h, err
}

// Results decodes the results of a record, and its inputs, nil if it has none.
func (r *Record) Results(frames [][]byte, outs, ins any) error {
	n := len(frames) - r.Inputs
	if err := codec.Unmarshal(frames[:n], outs); err != nil || r.Inputs == 0 || ins == nil {
		return err
	}
	return codec.Unmarshal(frames[n:], ins)
}

func headerOf(frames [][]byte) (*Header, error) {
	h := new(Header)
	if len(frames) != 2 || string(frames[0]) != magic || msgpack.Unmarshal(frames[1], h) != nil {
		return nil, errors.New("it is a file that Checkpoint has not written")
	}
	return h, nil
}

func recordOf(frames [][]byte, h *Header, offset int64) (*Record, [][]byte, error) {
	r := new(Record)
	ok := len(frames) > 0 && msgpack.Unmarshal(frames[0], r) == nil
	if ok && r.Run == "" {
		if !h.Keyed && len(frames) > 1 {
			r.Digests, frames = frames[1], frames[1:]
		}
		ok = r.fits(h, len(frames)-1)
	}
	if !ok {
		return nil, nil, fmt.Errorf("at byte %d it has something that Checkpoint has not written", offset)
	}
	return r, frames[1:], nil
}

// fits reports whether a record with so many frames behind it is one of a file with that header.
func (r *Record) fits(h *Header, frames int) bool {
	known := len(r.Digests) == codec.DigestSize*r.N && r.Keys == nil
	if h.Keyed {
		known = len(r.Keys) == r.N && r.Digests == nil
	}
	inside := len(r.Without) == 0 || r.Without[0] >= 0 && r.Without[len(r.Without)-1] < r.N
	return known && inside && slices.IsSorted(r.Without) && r.Lo >= 0 && r.N > 0 && r.Inputs >= 0 && r.Inputs < frames
}

// Append appends a record, and what follows it.
func Append(file *journal.File, r *Record, frames ...[]byte) (offset int64, err error) {
	text, err := msgpack.Marshal(r)
	if err != nil {
		return 0, err
	}
	head := [][]byte{text}
	if r.Digests != nil {
		head = append(head, r.Digests)
	}
	return file.Append(append(head, frames...)...)
}

// Read reads a record, and what follows it.
func Read(file *journal.File, h *Header, offset int64) (*Record, [][]byte, error) {
	frames, err := file.Read(offset)
	if err != nil {
		return nil, nil, err
	}
	return recordOf(frames, h, offset)
}

// differs says in what the header of a file does not fit a call.
func (h *Header) differs(want *Header) error {
	for _, x := range []struct{ what, found, want, hint string }{
		{"function", h.Func, want.Func, "another call needs a file of its own"},
		{"type of input", h.In, want.In, "start with another file"},
		{"type of result", h.Out, want.Out, "start with another file"},
		{"version", fmt.Sprintf("%q", h.Version), fmt.Sprintf("%q", want.Version), "start with another file, or give CheckpointVersion the old name"},
		{"way to know inputs", way(h.Keyed), way(want.Keyed), "start with another file"},
		{"seed", fmt.Sprint(h.Seed), fmt.Sprint(want.Seed), "start with another file, or leave Seed out to go on with the old one"},
	} {
		if x.found != x.want {
			return fmt.Errorf("its %s is %s, not %s; %s", x.what, x.found, x.want, x.hint)
		}
	}
	return nil
}

func way(keyed bool) string {
	if keyed {
		return "CheckpointKey"
	}
	return "the index and what the input holds"
}
