package fiber

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

// checkpointSync is how long a result may be only in the system's memory.
const checkpointSync = time.Second

// checkpointOptions are what options say about a call's checkpoint.
type checkpointOptions struct {
	path    string
	key     any // a func(In) string, nil for none
	version string
	sync    time.Duration // 0 for at once
	inputs  bool
	given   []string // the options that make no sense without Checkpoint
}

// Checkpoint keeps the results of a call in a file, as they come. A program that ends,
// however it does, and is started again makes the same call with the same file, and runs
// only the tasks whose results are not in it: the others are delivered from there. A call
// whose results are all there starts no worker. Failures are not kept: failed
// tasks run again. The promise: a task may run again, its result is delivered once.
//
// A result belongs to the index of its input and to what the input holds. An input that
// is another one by now is an error that names it; see CheckpointKey for lists that grow
// or are in another order. So is a file of another function, or of another type or
// CheckpointVersion. Results that refer to objects of this run, such as queues, are
// refused, and inputs that do so need a CheckpointKey.
//
// The disk has a result after a second at the latest, or see CheckpointSync. A disk that
// is full fails the call. What a crash has cut off at the end of the file is dropped; what
// is damaged before it is an error with its place. A file is of one call: it is
// locked while that runs, and a second call of the same run with it is an error. For
// an experiment's own state, use SaveState. In a container the path must be on a volume.
//
// A Result that comes from the file has no Worker, Took or Attempts.
func Checkpoint(path string) CallOption {
	return callOption(func(o *callOptions) error {
		if path == "" {
			return errors.New("fiber: Checkpoint: the path is empty")
		}
		o.checkpoint.path = path
		return nil
	})
}

// CheckpointKey has a result of the call's Checkpoint belong to the key of its input,
// wherever in the list that is: lists may grow, shrink, and be in another order. Two
// inputs must not have the same key. TaskSeed depends on the key, then, and not on the
// index. key may be called several times for an input, on any goroutine; In must be the function's.
func CheckpointKey[In any](key func(In) string) CallOption {
	return checkpointOption("CheckpointKey", func(c *checkpointOptions) error {
		if key == nil {
			return errors.New("fiber: CheckpointKey: the function is nil; leave the option out for the index and what the input holds")
		}
		c.key = key
		return nil
	})
}

// CheckpointVersion names the version of what the function computes. A Checkpoint with
// results of another version is an error, and so is one without any.
func CheckpointVersion(version string) CallOption {
	return checkpointOption("CheckpointVersion", func(c *checkpointOptions) error {
		c.version = version
		return nil
	})
}

// CheckpointSync sets how long a result of the call's Checkpoint may be only in the
// system's memory, which a program that is killed does not lose, but a machine does. The
// default is a second; with 0 the disk has each result before it is delivered.
func CheckpointSync(d time.Duration) CallOption {
	return checkpointOption("CheckpointSync", func(c *checkpointOptions) error {
		if d < 0 {
			return fmt.Errorf("fiber: CheckpointSync(%v): the time must be at least 0", d)
		}
		c.sync = d
		return nil
	})
}

// CheckpointInputs also keeps the inputs in the call's Checkpoint, for the command
// "fiber checkpoint".
func CheckpointInputs() CallOption {
	return checkpointOption("CheckpointInputs", func(c *checkpointOptions) error {
		c.inputs = true
		return nil
	})
}

func checkpointOption(name string, set func(*checkpointOptions) error) CallOption {
	return callOption(func(o *callOptions) error {
		o.checkpoint.given = append(o.checkpoint.given, name)
		return set(&o.checkpoint)
	})
}

// kept is a call's results in a file.
type kept[In, Out any] struct {
	fn     string
	path   string
	file   *journal.File
	key    func(In) string
	inputs bool

	closing sync.Once
	closed  error
}

var errCheckpointUsed = errors.New("this run has made another call with it: a checkpoint is of one call; for an experiment's own state, use SaveState")

// openCheckpoint opens the file of a call of so many tasks, 0 if that is not known, nil for none. each is called with what it keeps.
func openCheckpoint[In, Out any](p *process, o *callOptions, total int, each func(c *kept[In, Out], k *checkpoint.Record, offset int64, frames [][]byte) error) (c *kept[In, Out], err error) {
	how := &o.checkpoint
	if how.path == "" {
		if len(how.given) > 0 {
			return nil, fmt.Errorf("fiber: %s without Checkpoint: name the file with Checkpoint", how.given[0])
		}
		return nil, nil
	}
	c = &kept[In, Out]{fn: o.Func, inputs: how.inputs}
	if how.key != nil {
		var ok bool
		if c.key, ok = how.key.(func(In) string); !ok {
			return nil, fmt.Errorf("fiber: CheckpointKey of a %s: %s takes a %v", reflect.TypeOf(how.key).In(0), o.Func, reflect.TypeFor[In]())
		}
	}
	if c.path, err = filepath.Abs(how.path); err != nil {
		return nil, fmt.Errorf("fiber: Checkpoint: %w", err)
	}
	if err := outlives(c.path); err != nil {
		return nil, fmt.Errorf("fiber: Checkpoint: %w", err)
	}
	if !slices.Contains(how.given, "CheckpointSync") {
		how.sync = checkpointSync
	}
	if c.file, err = journal.Open(c.path, how.sync); err != nil {
		return nil, fmt.Errorf("fiber: Checkpoint: %w", err)
	}
	if err := c.begin(p, o, total, each); err != nil {
		_ = c.file.Close()
		return nil, fmt.Errorf("fiber: the checkpoint %s: %w", c.path, err)
	}
	return c, nil
}

// begin reads the file, and notes that this run uses it.
func (c *kept[In, Out]) begin(p *process, o *callOptions, total int, each func(c *kept[In, Out], k *checkpoint.Record, offset int64, frames [][]byte) error) error {
	how := &o.checkpoint
	in, err := savable[In]()
	if err != nil {
		return err
	}
	out, err := savable[Out]()
	if err != nil {
		return err
	}
	want := checkpoint.Header{Func: o.Func, In: in, Out: out, Version: how.version, Keyed: c.key != nil, Inputs: how.inputs, Seed: o.Seed, Began: time.Now()}
	last, err := checkpoint.Begin(c.file, &want, !o.seeded, func(k *checkpoint.Record, offset int64, frames [][]byte) error {
		return each(c, k, offset, frames)
	})
	if err != nil {
		return err
	}
	exe := executableHash()
	switch {
	case last.Run == p.node.Run:
		return errCheckpointUsed
	case last.Run != "" && last.Exe != exe:
		p.node.Log.Warn("fiber: the program has changed since its checkpoint was written: give CheckpointVersion another name if its results have, too", "path", c.path)
	}
	o.Seed = want.Seed
	_, err = checkpoint.Append(c.file, &checkpoint.Record{Run: p.node.Run, Exe: exe, Total: total})
	return err
}

// executableHash returns a text that differs for different executables.
var executableHash = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", xxhash.Sum64(file))
})

// digests returns those of inputs, the first of which has index lo, or the error of one that refers to objects of this run.
func (c *kept[In, Out]) digests(ins []In, lo int) ([]uint64, error) {
	digests, list, failed := codec.Digests(reflect.ValueOf(ins), names)
	if len(failed) > 0 {
		return nil, fmt.Errorf("fiber: the argument: %w", from(lo, failed)[0])
	}
	if p := parcelOf(list); len(p.handles)+len(p.ends) > 0 {
		return nil, errors.New("fiber: Checkpoint: an input refers to a queue, a pipe, a shared value or another object of this run; give CheckpointKey")
	}
	return digests, nil
}

// each calls take with the results of a record that are those of ins, each with the index of its input. keys has these by
// their keys, nil without keys.
func (c *kept[In, Out]) each(k *checkpoint.Record, frames [][]byte, ins []In, keys map[string]int, take func(i int, out Out)) error {
	outs, err := c.results(k, frames)
	if err != nil {
		return err
	}
	var digests []uint64
	if lo, hi := min(k.Lo, len(ins)), min(k.Lo+k.N, len(ins)); keys == nil {
		if digests, err = c.digests(ins[lo:hi], lo); err != nil {
			return err
		}
	}
	without := k.Without
	for i, out := range outs {
		task := k.Lo + i
		if len(without) > 0 && without[0] == task {
			without = without[1:]
			continue
		}
		if keys != nil {
			if at, found := keys[k.Keys[i]]; found {
				take(at, out)
			}
			continue
		}
		if i >= len(digests) {
			break // the list is shorter by now
		}
		if digests[i] != k.Digest(i) {
			return anotherInput(task)
		}
		take(task, out)
	}
	return nil
}

// close returns when the disk has all that was kept.
func (c *kept[In, Out]) close() error {
	c.closing.Do(func() {
		if err := c.file.Close(); err != nil {
			c.closed = fmt.Errorf("fiber: the checkpoint: %w", err)
		}
	})
	return c.closed
}

// keysFor has the engine know tasks by their keys, of inputs that slice returns.
func (c *kept[In, Out]) keysFor(o *callOptions, slice func(lo, hi int) []In) {
	if c.key == nil {
		return
	}
	o.Keys = func(lo, hi int) (keys []uint64) {
		for _, in := range slice(lo, hi) {
			keys = append(keys, xxhash.Sum64String(c.key(in)))
		}
		return keys
	}
}

// found is what a file has for the inputs of a stream, which come one by one.
type found[In, Out any] struct {
	ranges []rangeOf              // in the order of their tasks
	keys   map[string]recordPlace // in the place of ranges, with CheckpointKey
	seen   map[string]int         // the inputs so far, by their keys

	at   int64 // the record whose results these are
	kept *checkpoint.Record
	outs []Out
}

// rangeOf is where the results of tasks are.
type rangeOf struct {
	lo, n  int
	offset int64
}

// recordPlace is where a result is.
type recordPlace struct {
	offset int64
	i      int // in its record
}

// note notes what a record has.
func (f *found[In, Out]) note(c *kept[In, Out], k *checkpoint.Record, offset int64) {
	if c.key == nil {
		f.ranges = append(f.ranges, rangeOf{k.Lo, k.N, offset})
		return
	}
	for i, key := range k.Keys {
		if _, double := f.keys[key]; !double && !slices.Contains(k.Without, k.Lo+i) {
			f.keys[key] = recordPlace{offset, i}
		}
	}
}

// of returns the result of input i, if the file has it.
func (f *found[In, Out]) of(c *kept[In, Out], i int, in In) (out Out, ok bool, err error) {
	var at recordPlace
	if c.key != nil {
		key := c.key(in)
		if other, double := f.seen[key]; double {
			return out, false, fmt.Errorf("fiber: CheckpointKey: the inputs %d and %d have the same key %q", other, i, key)
		}
		f.seen[key] = i
		if at, ok = f.keys[key]; !ok {
			return out, false, nil
		}
	} else {
		n, _ := slices.BinarySearchFunc(f.ranges, i+1, func(r rangeOf, i int) int { return cmp.Compare(r.lo, i) })
		if n == 0 || i >= f.ranges[n-1].lo+f.ranges[n-1].n {
			return out, false, nil
		}
		at = recordPlace{f.ranges[n-1].offset, i - f.ranges[n-1].lo}
	}
	if err := f.load(c, at.offset); err != nil {
		return out, false, fmt.Errorf("fiber: the checkpoint %s: %w", c.path, err)
	}
	if slices.Contains(f.kept.Without, f.kept.Lo+at.i) {
		return out, false, nil
	}
	if c.key == nil {
		digests, err := c.digests([]In{in}, i)
		if err != nil {
			return out, false, err
		}
		if digests[0] != f.kept.Digest(at.i) {
			return out, false, fmt.Errorf("fiber: the checkpoint %s: %w", c.path, anotherInput(i))
		}
	}
	return f.outs[at.i], true, nil
}

// load reads a record, unless it was the last one.
func (f *found[In, Out]) load(c *kept[In, Out], offset int64) error {
	if f.outs != nil && f.at == offset {
		return nil
	}
	record, frames, err := checkpoint.Read(c.file, offset)
	if err != nil {
		return err
	}
	f.at, f.kept = offset, record
	f.outs, err = c.results(record, frames)
	return err
}

func anotherInput(i int) error {
	return fmt.Errorf("it has the result of another input at index %d; start with another file, or see CheckpointKey", i)
}

// keysOf returns the inputs by their keys, nil without CheckpointKey.
func keysOf[In any](o *callOptions, ins []In) (map[string]int, error) {
	key, ok := o.checkpoint.key.(func(In) string)
	if !ok {
		return nil, nil // which openCheckpoint complains about, if there is another one
	}
	keys := make(map[string]int, len(ins))
	for i, in := range ins {
		k := key(in)
		if other, double := keys[k]; double {
			return nil, fmt.Errorf("fiber: CheckpointKey: the inputs %d and %d have the same key %q", other, i, k)
		}
		keys[k] = i
	}
	return keys, nil
}

// add keeps the results of an outcome whose inputs are ins. named says that they refer to objects of this run.
func (c *kept[In, Out]) add(o engine.Outcome, ins []In, named bool, unread []int) error {
	if named {
		return errors.New("fiber: Checkpoint: a result refers to a queue, a pipe, a shared value or another object, which ends with this run")
	}
	k := checkpoint.Record{Lo: o.Lo, N: o.N, Without: append(slices.Clone(o.Again), unread...)}
	for _, f := range o.Failures {
		k.Without = append(k.Without, f.Index)
	}
	if len(k.Without) >= o.N || o.Outputs == nil {
		return nil
	}
	slices.Sort(k.Without)
	if c.key != nil {
		for _, in := range ins {
			k.Keys = append(k.Keys, c.key(in))
		}
	} else {
		digests, err := c.digests(ins, o.Lo)
		if err != nil {
			return err
		}
		for _, d := range digests {
			k.Digests = binary.LittleEndian.AppendUint64(k.Digests, d)
		}
	}
	frames := slices.Clip(o.Outputs)
	if c.inputs {
		value, err := marshalDetached(ins)
		if err != nil {
			return errorf("fiber: CheckpointInputs: %w", err)
		}
		k.Inputs = len(value)
		frames = append(frames, value...)
	}
	if _, err := checkpoint.Append(c.file, &k, frames...); err != nil {
		return fmt.Errorf("fiber: the checkpoint: %w", err)
	}
	return nil
}

// results decodes those of a record.
func (c *kept[In, Out]) results(k *checkpoint.Record, frames [][]byte) (outs []Out, err error) {
	if err = k.Results(frames, &outs, nil); err == nil && len(outs) != k.N {
		err = fmt.Errorf("%d results for %d tasks", len(outs), k.N)
	}
	return outs, err
}

// spansOf yields the tasks that are marked, from one index to below another.
func spansOf(done []bool) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < len(done); lo++ {
			if !done[lo] {
				continue
			}
			hi := lo
			for hi < len(done) && done[hi] {
				hi++
			}
			if !yield(lo, hi) {
				return
			}
			lo = hi
		}
	}
}
