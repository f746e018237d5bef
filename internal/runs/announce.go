package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/owner"
)

const (
	// lookEvery is how often a root looks for a question.
	lookEvery = time.Second
	// unasked is how many looks without a question end the watching.
	unasked = 10
	// closeTime bounds the wait for a look that goes on, when the run ends: a file system may not answer.
	closeTime = time.Second
)

// Answers answer questions. One goroutine at a time calls them.
type Answers struct {
	Status func() Status
	// Watch is called when the first question comes that others will follow, and stop when none has come for a while.
	Watch func() (stop func())
}

// Announced is a run that can be found.
type Announced struct {
	dir     string
	run     Run
	answers Answers

	held  lock.Lock // guards the rest, and the files
	over  bool
	timer *time.Timer
	files *os.Root // the directory; nil if there is none that is this user's alone
	stop  func()   // ends the watching; nil if there is none
	since int      // looks since the last question
	count uint64   // answers
}

// Announce has the run found by [List] until Close. The directory, which Announce makes, belongs to the run. A run that can't have
// one is not found, and neither is one on a system that does not tell when a process was started.
func Announce(dir string, r Run, answers Answers) *Announced {
	a := &Announced{dir: dir, run: r, answers: answers}
	if owner.PID(r.Owner) == 0 {
		a.over = true
		return a
	}
	_ = a.held.Lock(context.Background()) // it is new, and free
	defer a.held.Unlock()
	a.write()
	a.timer = time.AfterFunc(lookEvery, a.tick)
	return a
}

// write writes the file that says that there is a run.
func (a *Announced) write() {
	if a.files != nil {
		a.files.Close()
	}
	if a.files = openOwn(a.dir); a.files != nil {
		a.put(runFile, a.run)
	}
}

// openOwn opens a directory, which it makes if there is none. It returns nil for one that others may write to, or have made: the name
// may be known to them.
func openOwn(dir string) *os.Root {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	named, err := os.Lstat(dir)
	opened, err2 := root.Stat(".")
	if err != nil || err2 != nil || !own(named) || !os.SameFile(named, opened) {
		root.Close()
		return nil
	}
	return root
}

// put replaces a file as a whole. If it fails, a file is missing or old.
func (a *Announced) put(name string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = a.files.WriteFile(name+unfinished, text, 0o600)
	}
	if err == nil {
		_ = a.files.Rename(name+unfinished, name)
	}
}

// tick looks for a question.
func (a *Announced) tick() {
	_ = a.held.Lock(context.Background()) // its context never ends
	defer a.held.Unlock()
	if a.over {
		return
	}
	defer a.timer.Reset(lookEvery)
	if a.files == nil {
		a.write()
		return
	}
	if asked, err := a.files.ReadFile(askFile); err == nil {
		_ = a.files.Remove(askFile)
		a.answer(!bytes.Equal(asked, []byte(once)))
		return
	}
	if a.since++; a.since > unasked {
		a.unwatch()
	}
	if _, err := a.files.Stat(runFile); err != nil { // old files are removed from directories for temporary ones
		a.write()
	}
}

// answer answers a question, which others follow or not.
func (a *Announced) answer(again bool) {
	if a.since = 0; again && a.stop == nil {
		a.stop = a.answers.Watch()
	}
	s := a.answers.Status()
	a.count++
	s.Answer, s.At, s.Up, s.Backend = a.count, time.Now(), time.Since(a.run.Began), a.run.Backend
	a.put(statusFile, s)
}

func (a *Announced) unwatch() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// Close has the run found no more. The directory stays.
func (a *Announced) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if a.held.Lock(ctx) != nil {
		return
	}
	defer a.held.Unlock()
	if a.over {
		return
	}
	a.over = true
	a.timer.Stop()
	a.unwatch()
	if a.files != nil {
		for _, name := range all {
			_ = a.files.Remove(name)
		}
		a.files.Close()
	}
}
