// Package runs finds the programs of this machine that use Fiber, and asks them how they are.
//
// A root writes a file into the run's directory, and looks once a second whether another file has come, which asks. So it needs
// neither a goroutine nor a socket for this, and one that hangs or is stopped is found as well.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/owner"
)

// The files in a run's directory.
const (
	runFile    = "run.json"
	askFile    = "ask"
	statusFile = "status.json"
	unfinished = "~" // follows the name of one that is being written
)

var all = []string{askFile, statusFile, statusFile + unfinished, runFile + unfinished, runFile}

// once is in the file of a question that no other follows.
const once = "once"

// maxFile bounds what is read of a file.
const maxFile = 16 << 20

// Run is a program that runs, as its root has written it down.
type Run struct {
	Program string    `json:"program"` // the name of its executable
	Owner   string    `json:"owner"`   // the root; see package owner
	Backend string    `json:"backend"`
	Began   time.Time `json:"began"`

	dir string
	pid int
}

// Name is unique on this machine.
func (r Run) Name() string { return fmt.Sprintf("%s-%d", names.Program(r.Program), r.pid) }

// PID is that of the root.
func (r Run) PID() int { return r.pid }

// Ended reports whether the root is gone.
func (r Run) Ended() bool { return owner.PID(r.Owner) == 0 }

var directory = regexp.MustCompile(`^fiber-[0-9a-f]{12}$`)

// IsDirectory reports whether a name is that of a run's directory.
func IsDirectory(name string) bool { return directory.MatchString(name) }

// List returns the runs of this user whose runtime_dir that is, the oldest first. It removes what killed roots have left.
func List(runtimeDir string) (found []Run) {
	entries, _ := os.ReadDir(runtimeDir)
	for _, e := range entries {
		dir := filepath.Join(runtimeDir, e.Name())
		if info, err := e.Info(); err != nil || !IsDirectory(e.Name()) || !own(info) {
			continue
		}
		r := Run{dir: dir}
		if read(dir, runFile, &r) == nil {
			if r.pid = owner.PID(r.Owner); r.pid != 0 {
				found = append(found, r)
				continue
			}
		}
		if Sweep(dir) {
			_ = os.Remove(dir) // fails unless it is empty
		}
	}
	slices.SortFunc(found, func(a, b Run) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.pid, b.pid)) })
	return found
}

// read reads a file of a directory that is this user's.
func read(dir, name string, value any) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, maxFile)).Decode(value)
}

// left is how old a directory without the file of its root is at least, if its root is gone.
const left = time.Minute

// Sweep removes what a killed root has left in its run's directory, and reports whether it has done so.
func Sweep(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !own(info) {
		return false
	}
	var r Run
	switch err := read(dir, runFile, &r); {
	case errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) > left:
	case err == nil && owner.Gone(r.Owner):
	default:
		return false
	}
	for _, name := range all {
		_ = os.Remove(filepath.Join(dir, name))
	}
	return true
}

// ErrEnded means that the run is over.
var ErrEnded = errors.New("it has ended")

// lookAgain is how often an answer is looked for.
const lookAgain = 50 * time.Millisecond

// Ask returns how the run is. It takes about a second, and blocks until the root answers, or ctx ends.
func (r Run) Ask(ctx context.Context) (Status, error) { return r.ask(ctx, "") }

// AskOnce is Ask without the root's watching what its processes use, which takes a few more questions.
func (r Run) AskOnce(ctx context.Context) (Status, error) { return r.ask(ctx, once) }

func (r Run) ask(ctx context.Context, how string) (s Status, err error) {
	before, _ := r.status()
	if err := os.WriteFile(filepath.Join(r.dir, askFile), []byte(how), 0o600); err != nil {
		if r.Ended() {
			err = ErrEnded
		}
		return s, err
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		if s, err := r.status(); err == nil && s.Answer != before.Answer {
			return s, nil
		}
		if r.Ended() {
			return s, ErrEnded
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// status reads the newest answer.
func (r Run) status() (s Status, err error) {
	err = read(r.dir, statusFile, &s)
	return s, err
}

// Output opens the file that the root has as its stdout, 1, or its stderr, 2. It returns nil for one that is no file: a terminal or
// a pipe, say.
func (r Run) Output(fd int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", r.pid, fd)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Ended():
		return nil, ErrEnded
	case errors.Is(err, fs.ErrNotExist) && runtime.GOOS == "linux": // it has closed it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("where its output goes can't be found out: %w", err)
	case !info.Mode().IsRegular():
		return nil, nil
	}
	return os.Open(path)
}
