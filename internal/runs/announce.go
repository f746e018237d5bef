package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// lookEvery is how often a root looks whether somebody asks.
	lookEvery = time.Second
	// unasked is after how many looks nobody asks any more.
	unasked = 10
)

// Announced is a run that can be found.
type Announced struct {
	dir  string
	run  Run
	open func() (look func() Status, stop func())

	mu    sync.Mutex
	over  bool
	timer *time.Timer
	look  func() Status // nil while nobody asks
	stop  func()
	since int    // the looks that nobody has asked
	count uint64 // answers
}

// Announce has the run found by [List] until Close. The directory, which Announce makes, belongs to the run. Open is called when
// somebody begins to ask, look for each answer, and stop when nobody asks any more.
func Announce(dir string, r Run, open func() (look func() Status, stop func())) *Announced {
	a := &Announced{dir: dir, run: r, open: open}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write()
	a.timer = time.AfterFunc(lookEvery, a.tick)
	return a
}

// write writes the file that says that there is a run. Without it the run is not found, which its user can do without.
func (a *Announced) write() {
	_ = os.Mkdir(a.dir, 0o700)
	a.put(runFile, a.run)
}

// put replaces a file as a whole.
func (a *Announced) put(name string, value any) {
	text, err := json.Marshal(value)
	path := filepath.Join(a.dir, name)
	if err == nil {
		err = os.WriteFile(path+"~", text, 0o600)
	}
	if err == nil {
		_ = os.Rename(path+"~", path)
	}
}

func (a *Announced) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	defer a.timer.Reset(lookEvery)
	if os.Remove(filepath.Join(a.dir, askFile)) == nil {
		if a.since = 0; a.look == nil {
			a.look, a.stop = a.open()
		}
		s := a.look()
		a.count++
		s.Answer, s.At, s.Up, s.Program, s.Backend = a.count, time.Now(), time.Since(a.run.Began), a.run.Program, a.run.Backend
		a.put(statusFile, s)
		return
	}
	if a.since++; a.since > unasked {
		a.unwatch()
	}
	if _, err := os.Stat(filepath.Join(a.dir, runFile)); err != nil { // old files are removed from directories for temporary ones
		a.write()
	}
}

// unwatch ends the looks.
func (a *Announced) unwatch() {
	if a.look != nil {
		a.stop()
		a.look, a.stop = nil, nil
	}
}

// Close has the run found no more. The directory stays.
func (a *Announced) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.over = true
	a.timer.Stop()
	a.unwatch()
	remove(a.dir)
}
