// Package dashboard has a program that imports it write a report of its run when FIBER_REPORT names a file, as in
//
//	FIBER_REPORT=run.html go run ./sweep
//
// and a trace for Perfetto when FIBER_TRACE does. It exports nothing:
//
//	import _ "github.com/fiber-go/fiber/dashboard"
//
// The report is a page of HTML that needs no other file. It is written when the run ends. Until then run.html.recording has
// what is known, which fiber report makes a page of if the program is killed.
package dashboard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

// settings is what a report is made of, and where.
type settings struct {
	Report, Trace                        string // paths, "" for none
	Events                               func() iter.Seq2[event.Event, error]
	Program, Backend, Machine, GoVersion string
}

// How often what is known goes to the disk, and how long the end of the program waits for the page.
const (
	saveEvery = 5 * time.Second
	patience  = 15 * time.Second
)

func init() { _ = start }

// start begins a report, a trace or both. The function that it returns waits until they are complete, but not for long.
func start(s settings) (end func(runErr string), err error) {
	info := report.Info{Program: s.Program, Backend: s.Backend, Machine: s.Machine, Go: s.GoVersion, Began: time.Now()}
	w := &writer{settings: s, changed: true}
	if s.Report != "" {
		w.recorder = report.NewRecorder(info)
		if at, err := os.Stat(s.Report); err == nil && at.IsDir() {
			return nil, unusable("FIBER_REPORT", s.Report, errors.New("is a directory"))
		}
		if err := w.save(); err != nil {
			return nil, unusable("FIBER_REPORT", s.Report, err)
		}
	}
	if s.Trace != "" {
		if w.file, err = os.Create(s.Trace); err != nil {
			if s.Report != "" {
				os.Remove(s.Report + report.Suffix)
			}
			return nil, unusable("FIBER_TRACE", s.Trace, err)
		}
		w.trace = report.NewTrace(w.file, info)
	}
	ended, stop, saved := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(saved)
		for tick := time.NewTicker(saveEvery); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				w.complain(w.save())
			}
		}
	}()
	go func() {
		defer close(ended)
		w.run()
		close(stop)
		<-saved
		w.complain(w.finish())
	}()
	return func(runErr string) {
		w.mu.Lock()
		w.runErr = runErr
		w.mu.Unlock()
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			w.complain(errors.New("it was not complete in time"))
		}
	}, nil
}

// unusable is the error of a file that can't be written.
func unusable(variable, path string, err error) error {
	do := "name a file that this program may write"
	if errors.Is(err, fs.ErrNotExist) {
		do = "make its directory first"
	}
	if known := (*fs.PathError)(nil); errors.As(err, &known) {
		err = known.Err
	}
	return fmt.Errorf("%s=%s: %w; %s", variable, path, err, do)
}

// writer writes what happens in a run.
type writer struct {
	settings
	mu       sync.Mutex
	recorder *report.Recorder // nil for no report
	trace    *report.Trace    // nil for no trace
	file     *os.File
	runErr   string
	changed  bool
	ended    bool
	said     string
}

// run adds events until the run ends.
func (w *writer) run() {
	for e, err := range w.Events() {
		if err != nil {
			w.complain(err)
			return
		}
		w.add(e)
		if _, ok := e.What.(event.RunEnded); ok {
			return
		}
	}
}

func (w *writer) add(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
	if w.recorder != nil {
		w.recorder.Add(e)
	}
	if w.trace != nil {
		w.trace.Add(e)
	}
	_, w.ended = e.What.(event.RunEnded)
}

// save has the disk have what is known so far.
func (w *writer) save() error {
	recording, err := w.encode()
	if err != nil || len(recording) == 0 {
		return err
	}
	return report.Save(w.Report+report.Suffix, func(out io.Writer) error {
		_, err := out.Write(recording)
		return err
	})
}

// encode returns what is new for the disk, if there is any. Events wait meanwhile, and not while it is written.
func (w *writer) encode() (recording []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed {
		return nil, nil
	}
	w.changed = false
	if w.trace != nil {
		err = w.trace.Flush()
	}
	var out bytes.Buffer
	if w.recorder != nil {
		err = errors.Join(err, w.recorder.Recording().WriteJSON(&out))
	}
	return out.Bytes(), err
}

// finish writes the page, and ends the trace.
func (w *writer) finish() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trace != nil {
		err = errors.Join(w.trace.Close(), w.file.Close())
	}
	if w.recorder == nil {
		return err
	}
	if !w.ended {
		w.recorder.Add(event.Event{Time: time.Now(), What: event.RunEnded{Err: w.runErr}})
	}
	page := report.Save(w.Report, func(out io.Writer) error { return report.Page(out, w.recorder.Recording()) })
	if page == nil {
		page = os.Remove(w.Report + report.Suffix)
	}
	return errors.Join(err, page)
}

// complain says once what has gone wrong with the report, which is no reason for the program to fail.
func (w *writer) complain(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.said != err.Error() {
		w.said = err.Error()
		fmt.Fprintf(os.Stderr, "fiber: the report of this run: %v\n", err)
	}
}
