package fiber

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/retry"
)

// kept is a call's results in a file.
type kept[In, Out any] struct {
	path   string
	file   *journal.File
	header *checkpoint.Header
	run    string          // who uses it
	total  int             // tasks, 0 if that is not known
	key    func(In) string // nil for none
	plain  bool            // see codec.Plain, of In

	digested []byte // the memory of same

	failures atomic.Bool // tasks have failed
	closed   lock.Once[error]
}

// eachKept is called with a record, where it is, and what follows it.
type eachKept[In, Out any] func(c *kept[In, Out], k *checkpoint.Record, offset int64, frames [][]byte) error

var errCheckpointUsed = errors.New("this process has made a call with it, which has succeeded: a checkpoint is of one call, so give the next one another file; " +
	"for an experiment's own state, use SaveState")

// openCheckpoint opens the file of a call of so many tasks, 0 if that is not known. It returns nil for a call without one. It calls
// before, and then each with what is in the file.
func openCheckpoint[In, Out any](ctx context.Context, p *process, o *callOptions, total int, before func(c *kept[In, Out]) error,
	each eachKept[In, Out]) (c *kept[In, Out], err error) {
	how := &o.checkpoint
	if how.path == "" {
		if len(how.others) > 0 {
			return nil, fmt.Errorf("fiber: %s without Checkpoint: name the file with Checkpoint", how.others[0])
		}
		return nil, nil
	}
	c = &kept[In, Out]{plain: o.Plain}
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
	if !slices.Contains(how.others, "CheckpointSync") {
		how.sync = checkpointSync
	}
	in, err := savable[In]()
	if err != nil {
		return nil, c.error(err)
	}
	out, err := savable[Out]()
	if err != nil {
		return nil, c.error(err)
	}
	c.header = &checkpoint.Header{Func: o.Func, In: in, Out: out, Version: how.version, Keyed: c.key != nil, Inputs: how.inputs, Seed: o.Seed, Began: time.Now()}
	if err := before(c); err != nil {
		return nil, c.error(err)
	}
	if err := c.open(ctx, how.sync); err != nil {
		return nil, cmp.Or(ctx.Err(), c.error(err))
	}
	if err := c.begin(ctx, p, o, total, each); err != nil {
		_ = c.file.Close()
		return nil, cmp.Or(ctx.Err(), c.error(err))
	}
	return c, nil
}

// lockWait is how long the lock of a process that was killed is waited for: a child that it had forked, and that has not begun its
// own program yet, has the file open as well.
const lockWait = time.Second

// open opens the file.
func (c *kept[In, Out]) open(ctx context.Context, sync time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for pauses := (retry.Pauses{Longest: lockWait / 10}); ; {
		if c.file, err = journal.Open(c.path, sync); !errors.Is(err, journal.ErrOpen) || !pauses.Wait(ctx) {
			return err
		}
	}
}

// begin reads the file, and notes that this run uses it.
func (c *kept[In, Out]) begin(ctx context.Context, p *process, o *callOptions, total int, each eachKept[In, Out]) error {
	last, err := checkpoint.Begin(c.file, c.header, !o.seeded, func(k *checkpoint.Record, offset int64, frames [][]byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return each(c, k, offset, frames)
	})
	if err != nil {
		return err
	}
	c.run, c.total = p.node.Run+p.node.Place, total
	if t, ok := worker.Current(ctx); ok {
		c.run += fmt.Sprintf(" %s %d %d", t.Func, t.Index, t.Attempt)
	}
	if n := c.file.Dropped(); n > 0 {
		p.node.Log.Warn("fiber: the end of a checkpoint, which a crash has cut off, is dropped", "path", c.path, "bytes", n)
	}
	switch {
	case last.Run == c.run && last.Over:
		return errCheckpointUsed
	case last.Run != "" && last.Exe != executableHash():
		p.node.Log.Warn("fiber: the program has changed since its checkpoint was written: give CheckpointVersion another name if its results have, too", "path", c.path)
	}
	o.Seed = c.header.Seed
	_, err = checkpoint.Append(c.file, &checkpoint.Record{Run: c.run, Exe: executableHash(), Total: total})
	return err
}

// executableHash returns a text that differs for different executables.
var executableHash = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	sum := xxhash.New()
	if _, err := io.Copy(sum, file); err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sum.Sum64())
})

// keys returns the keys of inputs, nil if they have none.
func (c *kept[In, Out]) keys(ins []In) (keys []string) {
	if c.key == nil {
		return nil
	}
	for _, in := range ins {
		keys = append(keys, c.key(in))
	}
	return keys
}

// seedsOf returns what stands in TaskSeed for the indices of inputs with keys.
func seedsOf(keys []string) []uint64 {
	seeds := make([]uint64, len(keys))
	for i, key := range keys {
		seeds[i] = xxhash.Sum64String(key)
	}
	return seeds
}

// digests appends those of inputs; see codec.AppendDigests. The error is that of inputs that refer to objects of this run.
func (c *kept[In, Out]) digests(digests []byte, ins []In) ([]byte, error) {
	digests, list := codec.AppendDigests(digests, reflect.ValueOf(ins), names)
	if p := parcelOf(list); len(p.handles)+len(p.ends) > 0 {
		return nil, errors.New("an input refers to a queue, a pipe, a shared value or another object of this run; give CheckpointKey, and leave CheckpointInputs out")
	}
	return digests, nil
}

// check is digests for its error alone, before any input is sent.
func (c *kept[In, Out]) check(ins []In) error {
	if c.plain || c.key != nil && !c.header.Inputs {
		return nil
	}
	_, err := c.digests(nil, ins)
	return err
}

// byKey returns inputs by their keys.
func byKey(keys []string) (map[string]int, error) {
	by := make(map[string]int, len(keys))
	for i, key := range keys {
		if other, double := by[key]; double {
			return nil, sameKey(other, i, key)
		}
		by[key] = i
	}
	return by, nil
}

func sameKey(i, j int, key string) error {
	return fmt.Errorf("the inputs %d and %d have the same key %q: see CheckpointKey", i, j, key)
}

// fill fills in the results of a record that are those of inputs, and marks them with a 1. by is the inputs by their keys.
func (c *kept[In, Out]) fill(k *checkpoint.Record, frames [][]byte, ins []In, by map[string]int, outs []Out, done []byte) error {
	some, err := c.results(k, frames)
	if err != nil {
		return err
	}
	for lo, hi := range k.Stretches() {
		if c.key != nil {
			for i := lo; i < hi; i++ {
				if at, found := by[k.Keys[i]]; found {
					outs[at], done[at] = some[i], 1
				}
			}
			continue
		}
		if hi = min(hi, len(ins)-k.Lo); lo >= hi { // the list has changed
			continue
		}
		if err := c.same(k, lo, ins[k.Lo+lo:k.Lo+hi], k.Lo+lo); err != nil {
			return err
		}
		copy(outs[k.Lo+lo:], some[lo:hi])
		for i := lo; i < hi; i++ {
			done[k.Lo+i] = 1
		}
	}
	return nil
}

// same returns an error unless the results of a record, from lo on, are those of inputs. The first input is the task first.
func (c *kept[In, Out]) same(k *checkpoint.Record, lo int, ins []In, first int) error {
	digests, err := c.digests(c.digested[:0], ins)
	if err != nil {
		return err
	}
	c.digested = digests
	const size = codec.DigestSize
	if then := k.Digests[size*lo:]; !bytes.Equal(digests, then[:len(digests)]) {
		i := 0
		for bytes.Equal(digests[:size*(i+1)], then[:size*(i+1)]) {
			i++
		}
		return fmt.Errorf("it has the result of another input at index %d; start with another file, or see CheckpointKey", first+i)
	}
	return nil
}

// over notes that the call has all its results, unless tasks have failed, and closes the file. It returns before that if ctx ends.
func (c *kept[In, Out]) over(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		if c.failures.Load() {
			ended <- c.close()
			return
		}
		_, err := checkpoint.Append(c.file, &checkpoint.Record{Run: c.run, Exe: executableHash(), Total: c.total, Over: true})
		if err != nil {
			err = c.error(err)
		}
		ended <- cmp.Or(err, c.close())
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release closes the file of a call that fails, and waits for that, for a second at most: the disk may take its time.
func (c *kept[In, Out]) release() {
	closed := make(chan struct{})
	go func() {
		_ = c.close() // the call has failed for another reason
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// close returns when the disk has all that was kept.
func (c *kept[In, Out]) close() error {
	ended, _ := c.closed.Make(context.Background(), func() (*error, error) {
		err := c.file.Close()
		if err != nil {
			err = c.error(err)
		}
		return &err, nil
	})
	return *ended
}

// where is the file's path, "" for none.
func (c *kept[In, Out]) where() string {
	if c == nil {
		return ""
	}
	return c.path
}

// add keeps the results of an outcome. ins are its inputs, with their keys, if they have any; named says that results refer to
// objects of this run. After close nothing is kept: the call is over.
func (c *kept[In, Out]) add(o engine.Outcome, ins []In, keys []string, named bool, unread []int) (err error) {
	if named {
		return c.error(errors.New("a result refers to a queue, a pipe, a shared value or another object, which ends with this run"))
	}
	k := checkpoint.Record{Lo: o.Lo, N: o.N, Keys: keys}
	for _, failed := range [][]int{o.Again, unread} {
		for _, task := range failed {
			k.Without = append(k.Without, task-o.Lo)
		}
	}
	for _, f := range o.Failures {
		k.Without = append(k.Without, f.Index-o.Lo)
	}
	if len(o.Failures)+len(unread) > 0 {
		c.failures.Store(true)
	}
	if len(k.Without) >= o.N || o.Outputs == nil {
		return nil
	}
	slices.Sort(k.Without)
	if c.key == nil {
		if k.Digests, err = c.digests(nil, ins); err != nil {
			return c.error(err)
		}
	}
	frames := slices.Clip(o.Outputs)
	if c.header.Inputs {
		value, err := marshalDetached(ins)
		if err != nil {
			return c.error(fmt.Errorf("CheckpointInputs: %w", err))
		}
		k.Inputs = len(value)
		frames = append(frames, value...)
	}
	if _, err := checkpoint.Append(c.file, &k, frames...); err != nil && err != journal.ErrClosed {
		return c.error(err)
	}
	return nil
}

// error says which checkpoint an error is of.
func (c *kept[In, Out]) error(err error) error {
	return errorf("fiber: the checkpoint %s: %w", c.path, err)
}

// results decodes those of a record.
func (c *kept[In, Out]) results(k *checkpoint.Record, frames [][]byte) (outs []Out, err error) {
	err = k.Results(frames, &outs, nil)
	if err == nil && len(outs) != k.N {
		err = fmt.Errorf("%d results for %d tasks", len(outs), k.N)
	}
	return outs, err
}

// spansOf yields the tasks that are marked with a 1, from one index to below another.
func spansOf(done []byte) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for at := 0; at < len(done); {
			first := bytes.IndexByte(done[at:], 1)
			if first < 0 {
				return
			}
			lo := at + first
			at = len(done)
			if n := bytes.IndexByte(done[lo:], 0); n >= 0 {
				at = lo + n
			}
			if !yield(lo, at) {
				return
			}
		}
	}
}
