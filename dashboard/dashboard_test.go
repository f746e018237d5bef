package dashboard_test

import (
	"errors"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/dashboard"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// from yields what comes, and then err.
func from(events <-chan event.What, err error) func() iter.Seq2[event.Event, error] {
	return func() iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			for what := range events {
				if !yield(event.Event{Time: time.Now(), Process: "MainProcess", What: what}, nil) {
					return
				}
			}
			if err != nil {
				yield(event.Event{}, err)
			}
		}
	}
}

func recording(t *testing.T, page string) *report.Recording {
	f, err := os.Open(page + report.Suffix)
	require.NoError(t, err)
	defer f.Close()
	rec, err := report.ReadJSON(f)
	require.NoError(t, err)
	return rec
}

// While the program runs, the recording has what is known; at its end the page takes its place, and that of an older page.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page, trace := filepath.Join(t.TempDir(), "run.html"), filepath.Join(t.TempDir(), "run.json.gz")
		require.NoError(t, os.WriteFile(page, []byte("the page of another run"), 0o644))
		events := make(chan event.What)
		end, err := dashboard.Start(dashboard.Settings{Report: page, Trace: trace, Events: from(events, nil), Program: "sweep", Backend: "local"})
		require.NoError(t, err)
		require.Equal(t, "sweep", recording(t, page).Program)

		events <- event.CallBegan{Pool: "p", Func: "evaluate", Tasks: 7}
		time.Sleep(6 * time.Second)
		events <- event.CallBegan{Pool: "p", Call: 1, Func: "rank", Tasks: 1}
		synctest.Wait()
		rec := recording(t, page)
		for ; len(rec.Names) < 2; rec = recording(t, page) { // the file is written by another goroutine
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"evaluate", "rank"}, rec.Names)
		require.False(t, rec.Ended)
		old, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Equal(t, "the page of another run", string(old))

		events <- event.RunEnded{Err: "it went wrong"}
		end("it went wrong")
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(text), `"Ended":true,"Err":"it went wrong"`)
		left, err := os.ReadDir(filepath.Dir(page))
		require.NoError(t, err)
		require.Len(t, left, 1)
		info, err := os.Stat(trace)
		require.NoError(t, err)
		require.NotZero(t, info.Size())
		close(events)
	})
}

// Events that fail, or end early, are no reason to have no page; events that never end are none to wait for long.
func TestReportWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("the connection is over")} {
		page := filepath.Join(t.TempDir(), "run.html")
		events := make(chan event.What)
		close(events)
		end, err := dashboard.Start(dashboard.Settings{Report: page, Events: from(events, failure)})
		require.NoError(t, err)
		end("interrupted")
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Contains(t, string(text), `"Ended":true,"Err":"interrupted"`)
	}
	page := filepath.Join(t.TempDir(), "run.html") // which is there until all goroutines have ended
	synctest.Test(t, func(t *testing.T) {
		events := make(chan event.What)
		end, err := dashboard.Start(dashboard.Settings{Report: page, Events: from(events, nil)})
		require.NoError(t, err)
		end("")
		require.NoFileExists(t, page)
		require.False(t, recording(t, page).Ended)
		close(events)
	})
	require.FileExists(t, page)
}

// The dashboard, the report and the trace share one loop over events, and what is added up.
func TestOneLoop(t *testing.T) {
	t.Parallel()
	page, loops := filepath.Join(t.TempDir(), "run.html"), 0
	events := make(chan event.What, 2)
	end, err := dashboard.Start(dashboard.Settings{Report: page, Dashboard: "127.0.0.1:0", Page: func(string) {}, Events: func() iter.Seq2[event.Event, error] {
		loops++
		return from(events, nil)()
	}})
	require.NoError(t, err)
	events <- event.CallBegan{Pool: "p", Func: "evaluate", Tasks: 7}
	events <- event.RunEnded{}
	end("")
	require.Equal(t, 1, loops)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), `"Ended":true`)
	require.Contains(t, string(text), `"evaluate"`)
}

// A file that can't be written is an error at once.
func TestUnusable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, x := range []struct {
		settings dashboard.Settings
		want     string
	}{
		{dashboard.Settings{Report: dir + "/no/run.html"}, "FIBER_REPORT=" + dir + "/no/run.html: no such file or directory; make its directory first"},
		{dashboard.Settings{Trace: dir + "/no/run.json.gz"}, "FIBER_TRACE=" + dir + "/no/run.json.gz: no such file or directory; make its directory first"},
		{dashboard.Settings{Report: file + "/run.html"}, "FIBER_REPORT=" + file + "/run.html: not a directory; name a file that this program may write"},
		{dashboard.Settings{Report: dir}, "FIBER_REPORT=" + dir + ": is a directory; name a file that this program may write"},
		{dashboard.Settings{Report: dir + "/run.html", Trace: dir, Dashboard: "127.0.0.1:0", Page: func(string) {}}, "FIBER_TRACE=" + dir + ": is a directory; name a file that this program may write"},
	} {
		_, err := dashboard.Start(x.settings)
		require.EqualError(t, err, x.want)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = dashboard.Start(dashboard.Settings{Dashboard: taken.Addr().String()})
	require.ErrorContains(t, err, "FIBER_DASHBOARD="+taken.Addr().String()+": listen tcp ")
	require.ErrorContains(t, err, "address already in use; name an address of this machine with a free port, or 127.0.0.1:0 for any port")
}

// Only programs that import this package have what makes reports.
func TestImports(t *testing.T) {
	t.Parallel()
	deps := func(pkg string) string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		return string(out)
	}
	require.NotContains(t, deps("github.com/fiber-go/fiber"), "fiber/internal/report")
	with := deps("github.com/fiber-go/fiber/dashboard")
	require.Contains(t, with, "fiber/internal/report")
	for _, module := range []string{"chromedp", "testify"} {
		require.False(t, strings.Contains(with, module), module)
	}
}
