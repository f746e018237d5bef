package fiber

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
)

// SaveState writes a value, such as the state of an experiment between two generations,
// to a file, for LoadState in a later run. It replaces the file's value at once, and keeps
// the version before as path.before: whenever the program or the machine ends, one of
// them is whole. SaveState returns when the disk has the value; one SaveState at a time
// may write to a path. A file that SaveState has not written stays as it is: that is an
// error.
//
// The value may be anything that can travel, but nothing in it may belong to this run,
// such as a queue or a shared value. In a container the path must be on a volume. The
// error is an *EncodeError, or that of the disk.
func SaveState[T any](path string, v T) error {
	signature, err := savable[T]()
	if err != nil {
		return fmt.Errorf("fiber: SaveState: %w", err)
	}
	frames, err := marshalDetached(v)
	if err != nil {
		return errorf("fiber: SaveState: %w", err)
	}
	if err := outlives(path); err != nil {
		return fmt.Errorf("fiber: SaveState: %w", err)
	}
	if err := journal.Replace(path, stateFile, [][]byte{[]byte(signature)}, frames); err != nil {
		return fmt.Errorf("fiber: SaveState: %w", err)
	}
	return nil
}

// stateFile is the kind of file, and says how it is written.
const stateFile = "fiber state 1\n"

// LoadState reads into v what SaveState has written last. If that is damaged or missing,
// LoadState reads the version before, and logs a warning that says why: to begin anew,
// remove both. The error is fs.ErrNotExist if there is neither, says what is damaged if both versions are, or
// says what the file holds if that is not a T. After an error v is as before.
func LoadState[T any](path string, v *T) error {
	if v == nil {
		return errors.New("fiber: LoadState: the pointer is nil")
	}
	signature, err := savable[T]()
	if err != nil {
		return fmt.Errorf("fiber: LoadState: %w", err)
	}
	records, instead, err := journal.Load(path, stateFile)
	if err != nil {
		return fmt.Errorf("fiber: LoadState: %w", err)
	}
	if len(records) != 2 || len(records[0]) != 1 {
		return fmt.Errorf("fiber: LoadState: SaveState has not written %s", path)
	}
	if found := string(records[0][0]); found != signature {
		return fmt.Errorf("fiber: LoadState: %s holds a %s, not a %s", path, found, signature)
	}
	var loaded T
	if err := codec.Unmarshal(records[1], &loaded); err != nil {
		return errorf("fiber: LoadState: %s: %w", path, err)
	}
	if instead != nil {
		log := slog.Default()
		if p := here(); p != nil {
			log = p.node.Log
		}
		log.Warn("fiber: the version before the last of a state is loaded", "path", path, "reason", instead)
	}
	*v = loaded
	return nil
}

// savable returns the text of a type, or why values of it cannot be written.
func savable[T any]() (string, error) { return codec.Signature(reflect.TypeFor[T]()) }

// marshalDetached encodes a value that must not refer to objects of this run.
func marshalDetached(v any) ([][]byte, error) {
	frames, p, err := marshalNow(v)
	if err == nil && len(p.handles)+len(p.ends) > 0 {
		err = errors.New("the value refers to a queue, a pipe, a shared value or another object, which ends with this run")
	}
	return frames, err
}
