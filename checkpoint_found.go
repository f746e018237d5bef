package fiber

import (
	"cmp"
	"slices"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/codec"
)

// found finds the results that a file has for the inputs of a stream, which come one by one.
type found[In, Out any] struct {
	ranges []rangeOf              // in the order of their tasks, of which each is in one at most
	keys   map[string]recordPlace // in their stead, with CheckpointKey; also those of all inputs so far

	loaded map[int64]*loaded[Out] // records, by where they are
	order  []int64                // in which they were loaded
	size   int                    // bytes of the results in them
}

// rangeOf is where the results of tasks lo to lo+n-1 are.
type rangeOf struct {
	lo, n int
	recordPlace
}

// recordPlace is where a result is: in which record, at which index. There may be millions.
type recordPlace struct {
	offset int64 // 0 for none: the header is there
	i      uint32
	input  uint32 // with a key: how many inputs there were when it came, 0 if it has not
}

// loaded is the results of a record.
type loaded[Out any] struct {
	record *checkpoint.Record
	outs   []Out
	size   int
}

// maxLoaded bounds the encoded results of the records that are kept: with keys, inputs may come in any order.
const maxLoaded = 64 << 20

// note notes what a record has.
func (f *found[In, Out]) note(c *kept[In, Out], k *checkpoint.Record, offset int64) {
	for lo, hi := range k.Stretches() {
		if c.key == nil {
			f.ranges = append(f.ranges, rangeOf{k.Lo + lo, hi - lo, recordPlace{offset: offset, i: uint32(lo)}})
			continue
		}
		for i := lo; i < hi; i++ {
			if _, double := f.keys[k.Keys[i]]; !double {
				f.keys[k.Keys[i]] = recordPlace{offset: offset, i: uint32(i)}
			}
		}
	}
}

// of returns the result of input i, if the file has it. keys is its key, if it has one.
func (f *found[In, Out]) of(c *kept[In, Out], i int, in []In, keys []string) (out Out, ok bool, err error) {
	var at recordPlace
	if c.key != nil {
		key := keys[0]
		if at = f.keys[key]; at.input > 0 {
			return out, false, sameKey(int(at.input)-1, i, key)
		}
		at.input = uint32(i + 1)
		if f.keys[key] = at; at.offset == 0 {
			return out, false, c.check(in)
		}
	} else {
		n, _ := slices.BinarySearchFunc(f.ranges, i+1, func(r rangeOf, i int) int { return cmp.Compare(r.lo, i) })
		if n == 0 || i >= f.ranges[n-1].lo+f.ranges[n-1].n {
			return out, false, c.check(in)
		}
		r := f.ranges[n-1]
		at = recordPlace{offset: r.offset, i: r.i + uint32(i-r.lo)}
	}
	l, err := f.load(c, at.offset)
	if err == nil && c.key == nil {
		err = c.same(l.record, int(at.i), in, i)
	}
	if err != nil {
		return out, false, err
	}
	return l.outs[at.i], true, nil
}

// load reads a record, unless it was read a short while ago.
func (f *found[In, Out]) load(c *kept[In, Out], offset int64) (*loaded[Out], error) {
	if l := f.loaded[offset]; l != nil {
		return l, nil
	}
	record, frames, err := checkpoint.Read(c.file, c.header, offset)
	if err != nil {
		return nil, err
	}
	l := &loaded[Out]{record: record, size: codec.Size(frames)}
	if l.outs, err = c.results(record, frames); err != nil {
		return nil, err
	}
	f.loaded[offset] = l
	f.order = append(f.order, offset)
	for f.size += l.size; f.size > maxLoaded && len(f.order) > 1; f.order = f.order[1:] {
		f.size -= f.loaded[f.order[0]].size
		delete(f.loaded, f.order[0])
	}
	return l, nil
}
