package report_test

import (
	"bytes"
	"context"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

var update = flag.Bool("update", false, "write docs/report.png and docs/report-dark.png")

// The page of a run, in a browser: wide and narrow, light and dark, with the keyboard alone.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browser(t)
	info, all := made()
	path := written(t, recorded(info, slices.Values(all)).Recording())
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1400, "light"}, {1400, "dark"}, {400, "light"}, {400, "dark"}} {
		t.Run(look.scheme, func(t *testing.T) {
			tab := b.open(t, path, look.width, look.scheme)
			require.Equal(t, "walker-es: Fiber report", tab.eval("document.title"))
			require.Equal(t, "2,289", tab.fact("Tasks done"))
			require.Equal(t, "7", tab.fact("Failed"))
			require.Equal(t, "9", tab.fact("Retried"))
			require.Equal(t, "1", tab.fact("Lost"))
			require.Contains(t, tab.eval("document.querySelector('#funcs tbody').innerText"), "2,105 of 2,112")
			require.Contains(t, tab.eval("document.querySelector('#lost').innerText"), "fatal: cannot allocate 268435456-byte block")
			require.Contains(t, tab.eval("document.querySelector('#processes').innerText"), "of 512 MiB")
			require.Equal(t, "true", tab.eval("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window")

			// Tab leads to the stream, past all that can be done before it.
			for range 80 {
				if tab.eval("document.activeElement.id") == "view" {
					break
				}
				tab.keys(kb.Tab)
			}
			require.Equal(t, "view", tab.eval("document.activeElement.id"))
			require.Equal(t, "rollouts-1", worker(tab.tip("")))
			require.Contains(t, tab.tip(""), "evaluate #")
			first := tab.tip("")
			second := tab.tip(kb.ArrowRight)
			require.NotEqual(t, first, second)
			require.Equal(t, first, tab.tip(kb.ArrowLeft))
			require.Equal(t, "rollouts-2", worker(tab.tip(kb.ArrowDown)))
			before := tab.eval("document.querySelector('#canvas').toDataURL()")
			require.Equal(t, "rollouts-2", worker(tab.tip("+")))
			require.NotEqual(t, before, tab.eval("document.querySelector('#canvas').toDataURL()"), "it has not zoomed")
			tab.tip("0")
			require.Equal(t, "rollouts-1", worker(tab.tip(kb.ArrowUp)))
			require.Contains(t, tab.tip(kb.End), "recombine #")
			require.Equal(t, "", tab.tip(kb.Escape))

			// So do the wheel and the pointer.
			whole := tab.eval("document.querySelector('#canvas').toDataURL()")
			tab.eval("document.querySelector('#canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: -200, clientX: innerWidth / 2, bubbles: true, cancelable: true}))")
			tab.tip("")
			require.NotEqual(t, whole, tab.eval("document.querySelector('#canvas').toDataURL()"), "it has not zoomed")
			require.Equal(t, whole, func() string { tab.tip("0"); return tab.eval("document.querySelector('#canvas').toDataURL()") }())
			middle, err := strconv.ParseFloat(tab.eval("document.querySelector('#canvas').getBoundingClientRect().top + 22 + 3 * 28 + 14"), 64)
			require.NoError(t, err)
			tab.run(chromedp.MouseClickXY(float64(look.width)*0.3, middle))
			require.Equal(t, "rollouts-4", worker(tab.tip("")))
			require.NotEqual(t, tab.tip(""), tab.tip(kb.ArrowRight), "a click does not select")

			// Columns sort, and events are found.
			tab.eval("document.querySelectorAll('#each thead button')[0].click()")
			require.Equal(t, "ascending", tab.eval("document.querySelectorAll('#each thead th')[0].ariaSort"))
			require.Contains(t, tab.eval("document.querySelector('#each tbody th').innerText"), "evaluate")
			tab.run(chromedp.Focus("#text"), chromedp.KeyEvent("oomkilled:"))
			require.Equal(t, "1 of 7", tab.eval("document.querySelector('#found').innerText"))
		})
	}
	if *update {
		for scheme, file := range map[string]string{"light": "report.png", "dark": "report-dark.png"} {
			picture(t, b.open(t, path, 1280, scheme), filepath.Join("../../docs", file))
		}
	}
}

// Above 200 workers, the stream shows groups of them.
func TestPageOfManyWorkers(t *testing.T) {
	t.Parallel()
	b := browser(t)
	tab := b.open(t, written(t, recorded(many(100_000, 300)).Recording()), 1400, "light")
	require.Equal(t, "100,000", tab.fact("Tasks done"))
	require.Contains(t, tab.eval("document.querySelector('#merged').innerText"), "Of more than 200 workers, 300 here, groups are shown")
	tab.run(chromedp.Focus("#view"))
	require.Contains(t, tab.tip(kb.ArrowRight), "w0 to w2\n")
	require.Regexp(t, `^w3 to w5\n.*: \d+ % busy`, tab.tip(kb.ArrowDown))
}

// What the user's texts hold is shown, and nothing else comes of it. That goes for a page with nothing in it, too.
func TestPageIsHarmless(t *testing.T) {
	t.Parallel()
	b := browser(t)
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
	tab := b.open(t, written(t, rec), 1400, "light")
	tab.run(chromedp.Focus("#view"))
	require.Contains(t, tab.tip(kb.ArrowRight), evil)
	require.Equal(t, "0", tab.eval("document.images.length + document.querySelectorAll('b').length"))
	require.Equal(t, "undefined", tab.eval("typeof window.hacked"))
	require.Equal(t, evil, tab.eval("document.querySelector('h1').textContent"))
	for _, where := range []string{"#notes", "#each", "#lost", "#processes", "#shared", "#entries", "#legend"} {
		require.Contains(t, tab.eval("document.querySelector('"+where+"').textContent"), evil, where)
	}

	tab = b.open(t, written(t, report.NewRecorder(report.Info{Began: began}).Recording()), 400, "dark")
	require.Contains(t, tab.eval("document.body.innerText"), "No call was made.")
	require.Contains(t, tab.eval("document.body.innerText"), "or was killed")
}

// written makes the page of a recording.
func written(t *testing.T, rec *report.Recording) (path string) {
	var out bytes.Buffer
	require.NoError(t, report.Page(&out, rec))
	path = filepath.Join(t.TempDir(), "run.html")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	return path
}

// chromium is the browser of all these tests.
type chromium struct{ ctx context.Context }

var running = sync.OnceValues(func() (context.Context, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("headless", "new"), chromedp.WSURLReadTimeout(time.Minute))...)
	ctx, _ = chromedp.NewContext(ctx)
	closeBrowser = func() { _ = chromedp.Cancel(ctx) }
	return ctx, chromedp.Do(ctx)
})

var closeBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	closeBrowser()
	os.Exit(code)
}

func browser(t *testing.T) chromium {
	if testing.Short() {
		t.Skip("the race detector finds nothing in a page")
	}
	ctx, err := running()
	if err == exec.ErrNotFound {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	require.NoError(t, err)
	return chromium{ctx}
}

// tab is a page in a window.
type tab struct {
	*testing.T
	ctx context.Context
}

// open loads a page. Errors on its console and requests for anything else fail the test.
func (b chromium) open(t *testing.T, path string, width int64, scheme string) *tab {
	ctx, closeTab := chromedp.NewContext(b.ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	p := &tab{t, ctx}
	var mu sync.Mutex
	var wrong []string
	require.NoError(t, chromedp.Listen(ctx, func(e any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *runtime.EventConsoleAPICalled:
			wrong = append(wrong, string(e.Type))
		case *log.EventEntryAdded:
			wrong = append(wrong, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != (&url.URL{Scheme: "file", Path: path}).String() {
				wrong = append(wrong, "request for "+e.Request.URL)
			}
		}
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(t, wrong)
	})
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.run(chromedp.EmulateViewport(width, 900), chromedp.Navigate("file://"+path))
	return p
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, actions...))
}

func call[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.Helper()
	r, err := chromedp.Call(p.ctx, c, params)
	require.NoError(p, err)
	return r
}

// eval returns the value of an expression, or what it promises, as a text.
func (p *tab) eval(expression string) string {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(String)", chromedp.EvalAwaitPromise))
	require.NoError(p, err)
	return value
}

func (p *tab) fact(name string) string {
	p.Helper()
	return p.eval("document.querySelector('[data-fact=\"" + name + "\"]').firstChild.textContent")
}

func (p *tab) keys(keys string) {
	p.Helper()
	p.run(chromedp.KeyEvent(keys))
}

// tip types a key, and returns what is said of a box when that is drawn.
func (p *tab) tip(key string) string {
	p.Helper()
	if key != "" {
		p.keys(key)
	}
	p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
	return p.eval("document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').textContent")
}

// worker returns the worker in what is said of a box.
func worker(tip string) string {
	_, second, _ := strings.Cut(tip, "\n")
	name, _, _ := strings.Cut(second, ",")
	return name
}

// picture takes one of the page's upper part.
func picture(t *testing.T, p *tab, file string) {
	p.run(chromedp.Focus("#view"))
	for range 3 {
		p.tip(kb.ArrowDown)
	}
	for range 64 {
		p.tip(kb.ArrowRight)
	}
	p.eval("scrollTo(0, 0)")
	height, err := strconv.ParseFloat(p.eval("document.querySelector('#stream').getBoundingClientRect().bottom + 16"), 64)
	require.NoError(t, err)
	beyond := true
	png := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{Width: 1280, Height: height, Scale: 1}, CaptureBeyondViewport: &beyond}).Data
	require.Less(t, len(png), 300<<10)
	require.NoError(t, os.WriteFile(file, png, 0o644))
}
