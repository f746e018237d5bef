package fiber

import (
	"errors"
	"fmt"
	"time"
)

// checkpointSync is how long a result may be only in the system's memory.
const checkpointSync = time.Second

// checkpointOptions has a call's options for its checkpoint.
type checkpointOptions struct {
	path    string
	key     any // a func(In) string, nil for none
	version string
	sync    time.Duration // 0 for at once
	inputs  bool
	others  []string // the options that make no sense without Checkpoint
}

// given reports whether there is any such option.
func (o *checkpointOptions) given() bool { return o.path != "" || len(o.others) > 0 }

// Checkpoint keeps the results of a call in a file, as they come. A program that ends,
// however it does, and is started again makes the same call with the same file, and runs
// only the tasks whose results are not in it: the others are delivered from there. A call
// whose results are all there starts no worker. Failures are not kept: failed
// tasks run again. The promise: a task may run again, its result is delivered once.
//
// A result belongs to the index of its input and to what the input holds. An input that
// is another one by now is an error that names its index; see CheckpointKey for lists that grow
// or are in another order. So is a file of another function, or of another type or
// CheckpointVersion. Results that refer to objects of this run, such as queues, are
// refused, and inputs that do so need a CheckpointKey.
//
// The disk has a result after a second at the latest, or see CheckpointSync. A disk that
// is full fails the call. What a crash has cut off at the end of the file is dropped; what
// is damaged before it is an error with its place. A file is of one call: it is
// locked while that runs, and once all its tasks have succeeded, a second one of the same
// process, or of the same attempt of a task, is an error. For an experiment's own state, use
// SaveState. In a container the path must be on a volume.
//
// A Result that comes from the file has no Worker, Took or Attempts. MapAsync reads the
// file before it returns.
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
// index. key is called once for each input, on one goroutine; In must be the function's.
// An endless stream of inputs has as many keys, which are kept in memory.
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
		o.checkpoint.others = append(o.checkpoint.others, name)
		return set(&o.checkpoint)
	})
}
