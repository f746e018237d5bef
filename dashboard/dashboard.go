// Package dashboard has a program that imports it serve a page of its run when FIBER_DASHBOARD is an address, and write the same page
// when FIBER_REPORT names a file, as in
//
//	FIBER_DASHBOARD=127.0.0.1:0 go run ./sweep
//	FIBER_REPORT=run.html go run ./sweep
//
// and a trace for Perfetto when FIBER_TRACE does. It exports nothing:
//
//	import _ "github.com/fiber-go/fiber/dashboard"
//
// The page that is served is for whoever has the address that the program prints, with a token in it. The written one is HTML that needs
// no other file. It is there when the run ends. Until then run.html.recording has what is known, which fiber report makes a page of if the
// program is killed.
package dashboard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/report"
	"github.com/fiber-go/fiber/internal/stdio"
)

const (
	saveEvery = 5 * time.Second  // what is known goes to the disk
	patience  = 15 * time.Second // how long the end of the program waits for the page
)

func init() { observe.Pages.Register(start) }

// start begins a report, a trace and a dashboard, or some of them. The function that it returns waits until they are complete, but not for long.
func start(s observe.Settings) (end func(runErr string), err error) {
	info := report.Info{Program: s.Program, Backend: s.Backend, Machine: s.Machine, Go: s.GoVersion, Began: time.Now()}
	w := &writer{Settings: s, over: make(chan string, 1), saved: make(chan error, 1)}
	if s.Report != "" || s.Dashboard != "" {
		w.recorder = report.NewRecorder(info)
	}
	if s.Dashboard != "" {
		if w.server, err = listen(s.Dashboard); err != nil {
			return nil, fmt.Errorf("FIBER_DASHBOARD=%s: %w; name an address of this machine with a free port, or 127.0.0.1:0 for any port", s.Dashboard, err)
		}
		w.server.publish(w.recorder)
		defer func() {
			if err != nil {
				w.server.end()
			}
		}()
	}
	if s.Report != "" {
		if s.Report == s.Trace {
			return nil, errors.New("FIBER_REPORT and FIBER_TRACE name the same file: " + s.Report)
		}
		switch at, err := os.Stat(s.Report); {
		case err == nil && at.IsDir():
			return nil, unusable("FIBER_REPORT", s.Report, syscall.EISDIR)
		case err == nil && !at.Mode().IsRegular(): // it would be replaced
			return nil, unusable("FIBER_REPORT", s.Report, errors.New("it is no regular file"))
		case err == nil: // where a symbolic link leads
			if w.Report, err = filepath.EvalSymlinks(s.Report); err != nil {
				return nil, unusable("FIBER_REPORT", s.Report, err)
			}
		}
		w.save()
		if err := <-w.saved; err != nil {
			return nil, unusable("FIBER_REPORT", s.Report, err)
		}
	}
	w.saved <- nil
	if s.Trace != "" {
		if w.file, err = os.Create(s.Trace); err != nil {
			os.Remove(w.Report + report.Suffix)
			return nil, unusable("FIBER_TRACE", s.Trace, err)
		}
		w.trace = report.NewTrace(w.file, info)
	}
	if w.server != nil {
		s.Page(w.server.url())
		fmt.Fprintf(stdio.Stderr, "fiber: dashboard: %s\n", w.server.url())
	}
	ended, events := make(chan struct{}), s.Events() // nothing that follows is missed
	go func() {
		defer close(ended)
		complain(w.run(events))
	}()
	return func(runErr string) {
		w.over <- runErr
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			complain(fmt.Errorf("it is not complete after %v", patience))
			w.server.end()
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
	observe.Settings
	over     chan string      // the error of the run
	recorder *report.Recorder // nil for neither report nor dashboard
	trace    *report.Trace    // nil for no trace
	file     *os.File
	server   *server    // nil for no dashboard
	saved    chan error // has one when no recording is being written
}

// run adds events until the run ends. Since what processes use comes every two seconds, none is the last one for long.
func (w *writer) run(events iter.Seq2[event.Event, error]) (err error) {
	ended, next, failures := false, time.Now().Add(saveEvery), error(nil)
	for e, failed := range events {
		if err = failed; err != nil {
			break
		}
		if ended = w.add(e); ended {
			break
		}
		w.server.offer(w.recorder)
		if time.Now().Before(next) {
			continue
		}
		select {
		case failures = <-w.saved:
			w.save()
		default: // the disk is slow
		}
		next = time.Now().Add(saveEvery)
	}
	if !ended {
		w.add(event.Event{Time: time.Now(), What: event.RunEnded{Err: <-w.over}})
	}
	return errors.Join(err, failures, w.finish())
}

// add adds an event, and reports whether it is the last one.
func (w *writer) add(e event.Event) bool {
	if w.recorder != nil {
		w.recorder.Add(e)
	}
	if w.trace != nil {
		w.trace.Add(e)
	}
	_, last := e.What.(event.RunEnded)
	return last
}

// save begins to write what is known so far. Events wait while it is encoded, and not while it is written.
func (w *writer) save() {
	var flushed error
	if w.trace != nil {
		flushed = w.trace.Flush()
	}
	if w.Report == "" {
		w.saved <- flushed
		return
	}
	var recording bytes.Buffer
	encoded := w.recorder.Recording().WriteJSON(&recording)
	go func() {
		w.saved <- errors.Join(flushed, encoded, report.Save(w.Report+report.Suffix, func(out io.Writer) error {
			_, err := recording.WriteTo(out)
			return err
		}))
	}()
}

// finish writes the page, and ends the trace and the dashboard.
func (w *writer) finish() (err error) {
	<-w.saved // the page makes up for it
	if w.trace != nil {
		err = errors.Join(w.trace.Close(), w.file.Close())
	}
	if w.server != nil {
		w.server.publish(w.recorder)
		defer w.server.end()
	}
	if w.Report == "" {
		return err
	}
	page := report.Save(w.Report, func(out io.Writer) error { return report.Page(out, w.recorder.Recording()) })
	if page == nil {
		page = os.Remove(w.Report + report.Suffix)
	}
	return errors.Join(err, page)
}

// complain says what has gone wrong with the report, which is no reason for the program to fail.
func complain(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "fiber: the report of this run: %v\n", err)
	}
}
