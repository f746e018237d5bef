package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
	"github.com/fiber-go/fiber/test/browser"
)

var update = flag.Bool("update", false, "write docs/report.png and docs/report-dark.png")

// The page of a run, in a browser: wide and narrow, light and dark, with the keyboard alone.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browser.Of(t)
	info, all := made()
	path := written(t, recorded(info, slices.Values(all)).Recording())
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1400, "light"}, {1400, "dark"}, {400, "light"}, {400, "dark"}} {
		t.Run(look.scheme, func(t *testing.T) {
			tab := b.Open(t, "file://"+path, look.width, look.scheme)
			require.Equal(t, "walker-es: Fiber report", tab.Eval("document.title"))
			require.Equal(t, "2,289", tab.Fact("Tasks done"))
			require.Equal(t, "7", tab.Fact("Failed"))
			require.Equal(t, "9", tab.Fact("Retried"))
			require.Equal(t, "1", tab.Fact("Lost"))
			require.Contains(t, tab.Eval("document.querySelector('#funcs tbody').innerText"), "2,105 of 2,112")
			require.Contains(t, tab.Eval("document.querySelector('#lost').innerText"), "fatal: cannot allocate 268435456-byte block")
			require.Contains(t, tab.Eval("document.querySelector('#processes').innerText"), "of 512 MiB")
			require.Equal(t, "true", tab.Eval("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window")
			shown := tab.Eval("document.body.innerHTML")
			tab.Eval("show(run)")
			require.Equal(t, shown, tab.Eval("document.body.innerHTML"), "it is not the same when it is drawn again")

			// Tab leads to the stream, past all that can be done before it.
			for range 80 {
				if tab.Eval("document.activeElement.id") == "view" {
					break
				}
				tab.Keys(kb.Tab)
			}
			require.Equal(t, "view", tab.Eval("document.activeElement.id"))
			require.Equal(t, "rollouts-1", worker(tab.Tip("")))
			require.Contains(t, tab.Tip(""), "evaluate #")
			first := tab.Tip("")
			second := tab.Tip(kb.ArrowRight)
			require.NotEqual(t, first, second)
			require.Equal(t, first, tab.Tip(kb.ArrowLeft))
			require.Equal(t, "rollouts-2", worker(tab.Tip(kb.ArrowDown)))
			before := tab.Eval("document.querySelector('#canvas').toDataURL()")
			require.Equal(t, "rollouts-2", worker(tab.Tip("+")))
			require.NotEqual(t, before, tab.Eval("document.querySelector('#canvas').toDataURL()"), "it has not zoomed")
			tab.Tip("0")
			require.Equal(t, "rollouts-1", worker(tab.Tip(kb.ArrowUp)))
			require.Contains(t, tab.Tip(kb.End), "recombine #")
			require.Equal(t, "", tab.Tip(kb.Escape))

			// So do the wheel and the pointer.
			whole := tab.Eval("document.querySelector('#canvas').toDataURL()")
			tab.Eval("document.querySelector('#canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: -200, clientX: innerWidth / 2, bubbles: true, cancelable: true}))")
			tab.Tip("")
			require.NotEqual(t, whole, tab.Eval("document.querySelector('#canvas').toDataURL()"), "it has not zoomed")
			require.Equal(t, whole, func() string { tab.Tip("0"); return tab.Eval("document.querySelector('#canvas').toDataURL()") }())
			middle, err := strconv.ParseFloat(tab.Eval("document.querySelector('#canvas').getBoundingClientRect().top + 22 + 3 * 28 + 14"), 64)
			require.NoError(t, err)
			tab.Run(chromedp.MouseClickXY(float64(look.width)*0.3, middle))
			require.Equal(t, "rollouts-4", worker(tab.Tip("")))
			require.NotEqual(t, tab.Tip(""), tab.Tip(kb.ArrowRight), "a click does not select")

			// Columns sort, and events are found.
			tab.Eval("document.querySelectorAll('#each thead button')[0].click()")
			require.Equal(t, "ascending", tab.Eval("document.querySelectorAll('#each thead th')[0].ariaSort"))
			require.Contains(t, tab.Eval("document.querySelector('#each tbody th').innerText"), "evaluate")
			tab.Run(chromedp.Focus("#text"), chromedp.KeyEvent("oomkilled:"))
			require.Equal(t, "1 of 7", tab.Eval("document.querySelector('#found').innerText"))
		})
	}
	if *update {
		for scheme, file := range map[string]string{"light": "report.png", "dark": "report-dark.png"} {
			picture(t, b.Open(t, "file://"+path, 1280, scheme), filepath.Join("../../docs", file))
		}
	}
}

// Above 200 workers, the stream shows groups of them.
func TestPageOfManyWorkers(t *testing.T) {
	t.Parallel()
	b := browser.Of(t)
	tab := b.Open(t, "file://"+written(t, recorded(many(100_000, 300)).Recording()), 1400, "light")
	require.Equal(t, "100,000", tab.Fact("Tasks done"))
	require.Contains(t, tab.Eval("document.querySelector('#merged').innerText"), "Of more than 200 workers, 300 here, groups are shown")
	tab.Run(chromedp.Focus("#view"))
	require.Contains(t, tab.Tip(kb.ArrowRight), "w0 to w2\n")
	group := tab.Tip(kb.ArrowDown)
	require.Regexp(t, `^w3 to w5\n.*: \d+ % busy`, group)
	tab.Eval("show(run)")
	require.Equal(t, group, tab.Tip(""))
}

// What the user's texts hold is shown, and nothing else comes of it. That goes for a page with nothing in it, too.
func TestPageIsHarmless(t *testing.T) {
	t.Parallel()
	b := browser.Of(t)
	const evil = `</script ><!--<script><img src=x onerror="window.hacked=1"><b>&amp;"'` + "\u2028`${1}"
	e := func(what event.What) event.Event {
		return event.Event{Time: at(time.Second), Process: evil, What: what}
	}
	rec := recorded(report.Info{Program: evil, Backend: evil, Machine: evil, Go: evil, Began: began}, slices.Values([]event.Event{
		e(event.ProcessStarted{Name: evil, Role: evil, Func: evil, ID: evil, Host: evil}),
		e(event.ProcessStatus{Name: evil, Resident: 1, CPU: 1}),
		e(event.CallBegan{Pool: evil, Func: evil, Tasks: 1}),
		e(event.Tasks{Pool: evil, Func: evil, Worker: evil, Count: 1, Failed: 1, Err: evil, Began: began, Ended: at(time.Second)}),
		e(event.CallEnded{Pool: evil, Func: evil, Tasks: 1, Failed: 1, Err: evil}),
		e(event.WorkerEnded{Pool: evil, Worker: evil, Lost: true, Ready: true, Reason: evil, Ran: evil, Tasks: evil}),
		e(event.ProcessEnded{Name: evil, Role: evil, How: evil, Words: []string{evil}}),
		e(event.Waiting{Name: evil, Reason: evil}),
		e(event.Objects{List: []event.Object{{Kind: evil, Holder: evil}}}),
		e(event.Log{Level: evil, Message: evil, Attrs: []string{evil}}),
		e(event.RunEnded{Err: evil}),
	})).Recording()
	tab := b.Open(t, "file://"+written(t, rec), 1400, "light")
	tab.Run(chromedp.Focus("#view"))
	require.Contains(t, tab.Tip(kb.ArrowRight), evil)
	require.Equal(t, "0", tab.Eval("document.images.length + document.querySelectorAll('b').length"))
	require.Equal(t, "undefined", tab.Eval("typeof window.hacked"))
	require.Equal(t, evil, tab.Eval("document.querySelector('h1').textContent"))
	for _, where := range []string{"#notes", "#each", "#lost", "#processes", "#shared", "#entries", "#legend"} {
		require.Contains(t, tab.Eval("document.querySelector('"+where+"').textContent"), evil, where)
	}

	tab = b.Open(t, "file://"+written(t, report.NewRecorder(report.Info{Began: began}).Recording()), 400, "dark")
	require.Contains(t, tab.Eval("document.body.innerText"), "No call was made.")
	require.Contains(t, tab.Eval("document.body.innerText"), "or was killed")
}

// written makes the page of a recording.
func written(t *testing.T, rec *report.Recording) (path string) {
	var out bytes.Buffer
	require.NoError(t, report.Page(&out, rec))
	path = filepath.Join(t.TempDir(), "run.html")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	browser.Close()
	os.Exit(code)
}

// worker returns the worker in what is said of a box.
func worker(tip string) string {
	_, second, _ := strings.Cut(tip, "\n")
	name, _, _ := strings.Cut(second, ",")
	return name
}

// picture takes one of the page's upper part.
func picture(t *testing.T, p *browser.Tab, file string) {
	p.Run(chromedp.Focus("#view"))
	for range 3 {
		p.Tip(kb.ArrowDown)
	}
	for range 64 {
		p.Tip(kb.ArrowRight)
	}
	p.Eval("scrollTo(0, 0)")
	height, err := strconv.ParseFloat(p.Eval("document.querySelector('#stream').getBoundingClientRect().bottom + 16"), 64)
	require.NoError(t, err)
	beyond := true
	png := browser.Call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{Width: 1280, Height: height, Scale: 1}, CaptureBeyondViewport: &beyond}).Data
	require.Less(t, len(png), 300<<10)
	require.NoError(t, os.WriteFile(file, png, 0o644))
}
