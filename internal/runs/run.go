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
	"os"
	"path/filepath"
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
)

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

// List returns the runs of this user whose runtime_dir that is, the oldest first.
func List(runtimeDir string) (all []Run) {
	files, _ := filepath.Glob(filepath.Join(runtimeDir, "fiber-*", runFile))
	for _, file := range files {
		r := Run{dir: filepath.Dir(file)}
		if text, err := os.ReadFile(file); err != nil || !own(r.dir) || json.Unmarshal(text, &r) != nil {
			continue
		}
		if r.pid = owner.PID(r.Owner); r.pid != 0 {
			all = append(all, r)
			continue
		}
		Sweep(r.dir)
		_ = os.Remove(r.dir) // fails unless it is empty
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.pid, b.pid)) })
	return all
}

// Sweep removes what a killed root has left in its run's directory.
func Sweep(dir string) {
	var r Run
	text, err := os.ReadFile(filepath.Join(dir, runFile))
	if err == nil && json.Unmarshal(text, &r) == nil && owner.Gone(r.Owner) {
		remove(dir)
	}
}

func remove(dir string) {
	for _, name := range []string{askFile, statusFile, runFile} {
		_ = os.Remove(filepath.Join(dir, name))
	}
}

// ErrEnded means that the run is over.
var ErrEnded = errors.New("it has ended")

// lookAgain is how often an answer is looked for.
const lookAgain = 50 * time.Millisecond

// Ask returns how the run is. It takes about a second, and blocks until the root answers, or ctx ends.
func (r Run) Ask(ctx context.Context) (s Status, err error) {
	before, _ := r.status()
	if err := os.WriteFile(filepath.Join(r.dir, askFile), nil, 0o600); err != nil {
		if r.Ended() {
			err = ErrEnded
		}
		return s, err
	}
	for again := time.NewTicker(lookAgain); ; {
		if s, err := r.status(); err == nil && s.Answer != before.Answer {
			return s, nil
		}
		if r.Ended() {
			return s, ErrEnded
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return s, ctx.Err()
		}
	}
}

// status reads the newest answer.
func (r Run) status() (s Status, err error) {
	text, err := os.ReadFile(filepath.Join(r.dir, statusFile))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// Output opens the file that the root has as its stdout, 1, or its stderr, 2. It returns nil for one that is no file: a terminal or
// a pipe, say. Where there is no /proc, an error says so.
func (r Run) Output(fd int) (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", r.pid, fd)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && r.Ended():
		return nil, ErrEnded
	case errors.Is(err, os.ErrNotExist) && runtime.GOOS == "linux": // it has closed it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("where its output goes can't be found out: %w", err)
	case !info.Mode().IsRegular():
		return nil, nil
	}
	return os.Open(path)
}
