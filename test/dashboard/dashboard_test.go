//go:build unix

package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	_ "github.com/fiber-go/fiber/dashboard"
	"github.com/fiber-go/fiber/internal/report"
	"github.com/fiber-go/fiber/test/browser"
	"github.com/fiber-go/fiber/test/fibertest"
)

// step is a task. It may fail, or wait for a file.
type step struct {
	Fails bool
	Gate  string
}

var work = fiber.Register("work", func(ctx context.Context, s step) (fibertest.None, error) {
	time.Sleep(5 * time.Millisecond) // its box is its own
	if s.Fails {
		return fibertest.None{}, errors.New("no luck")
	}
	return fibertest.None{}, fibertest.Await(ctx, s.Gate)
})

// The program makes three calls in a pool of four workers, one when there is a file begin1 in DIR, and so on. In the first and the last one
// tasks fail; the second one ends when there is a file end2. It says what has come of its tasks, and ends when there is a file begin4.
var _ = fibertest.MainProgram("dashboard", func(ctx context.Context) error {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return err
	}
	defer pool.Close()
	for call := 1; ; call++ {
		if err := fibertest.Await(ctx, filepath.Join(os.Getenv("DIR"), fmt.Sprint("begin", call))); err != nil || call == 4 {
			return err
		}
		all := make([]step, 60)
		if call == 2 {
			all[59].Gate = filepath.Join(os.Getenv("DIR"), "end2")
			_, err = fiber.Map(ctx, pool, work, all, fiber.ChunkSize(1))
		} else {
			all[7].Fails, all[11].Fails = true, true
			for _, err = range fiber.Results(ctx, pool, work, slices.Values(all)) {
			}
		}
		if err != nil {
			return err
		}
		stats := pool.Stats()
		fmt.Printf("call %d: %d and %d\n", call, stats.Done, stats.Failed)
	}
})

// The page shows numbers that grow and, at the end, those of the program. What is looked at stays when they come.
func TestDashboard(t *testing.T) {
	b := browser.Of(t)
	t.Cleanup(browser.Close)
	dir, written := fibertest.OpenDir(t), filepath.Join(t.TempDir(), "run.html")
	touch := func(name string) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644)) }
	x := fibertest.Start(t, "dashboard", "DIR="+dir, "FIBER_DASHBOARD=127.0.0.1:0", "FIBER_REPORT="+written)
	line := regexp.MustCompile(`(?m)^fiber: dashboard: (http://127\.0\.0\.1:\d+/)(\?token=\w+)$`)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return line.MatchString(x.Err.String()) }, "it does not print the address")
	address := line.FindStringSubmatch(x.Err.String())
	touch("begin1")
	x.Says("call 1: 58 and 2")

	tab := b.Open(t, address[1]+address[2], 1400, "light")
	shows := func(expression, want string) {
		t.Helper()
		fibertest.Eventually(t, fibertest.Patience, func() bool { return tab.Eval(expression) == want }, expression+" is not "+want)
	}
	fact := func(name, want string) {
		t.Helper()
		shows("document.querySelector('[data-fact=\""+name+"\"]')?.firstChild.textContent", want)
	}
	fact("Tasks done", "58")
	fact("Failed", "2")
	require.Equal(t, address[1], tab.Eval("location.href"), "the token is in the address")
	require.Equal(t, "running", tab.Eval("document.querySelector('#status').textContent"))

	// What is looked at: a box, a part of the run, an order, events.
	tab.Eval("document.querySelectorAll('#processes thead button')[3].click()")
	tab.Run(chromedp.Focus("#text"), chromedp.KeyEvent("nothing like this"))
	require.Equal(t, "0", tab.Eval("document.querySelectorAll('#entries tbody tr').length"))
	tab.Run(chromedp.Focus("#view"))
	box := tab.Tip(kb.ArrowDown + kb.ArrowRight + kb.ArrowRight + "+++++")
	require.Contains(t, box, "work #")
	where := func() string { return tab.Eval("document.querySelector('#tip').style.left") } // it shows which part of the run is looked at
	part := where()
	tab.Eval("document.querySelector('#each thead button').focus()")
	tab.Eval("scrollTo(0, 800)")
	place := tab.Eval("document.querySelector('#stream').getBoundingClientRect().top")

	touch("begin2")
	fact("Tasks done", "117")
	left := "/^under way, .* left$/.test([...document.querySelectorAll('#each tbody tr')].map(r => r.lastChild.innerText).find(s => s))"
	shows(left, "true")
	require.Equal(t, "true", tab.Eval("Math.abs(document.querySelector('#stream').getBoundingClientRect().top - "+place+") < 1"), "it has scrolled")
	require.Equal(t, "Function", tab.Eval("document.activeElement.textContent"), "the focus is lost")
	require.Equal(t, "descending", tab.Eval("document.querySelectorAll('#processes thead th')[3].ariaSort"))
	require.Equal(t, "nothing like this", tab.Eval("document.querySelector('#text').value"))
	require.Equal(t, "0", tab.Eval("document.querySelectorAll('#entries tbody tr').length"))
	tab.Run(chromedp.Focus("#view"))
	require.Equal(t, box, tab.Tip(""), "another box is selected")
	require.Equal(t, part, where(), "it is not the part of the run that it was")

	// The whole run stays the whole run.
	tab.Tip("0")
	whole := where()
	require.NotEqual(t, part, whole)
	touch("end2")
	x.Says("call 2: 118 and 2")
	fact("Tasks done", "118")
	tab.Eval("document.querySelector('#pause').click()")
	require.Equal(t, box, tab.Tip(""))
	grown := where()
	require.NotEqual(t, whole, grown)
	tab.Tip("0")
	require.Equal(t, grown, where(), "there is more than it showed")

	// Paused, it asks for nothing.
	require.Equal(t, "Go on", tab.Eval("document.querySelector('#pause').textContent"))
	touch("begin3")
	x.Says("call 3: 176 and 4")
	known(t, address[1]+address[2], 176)
	require.Equal(t, "118", tab.Fact("Tasks done"))
	tab.Eval("document.querySelector('#pause').click()")
	fact("Tasks done", "176")
	fact("Failed", "4")

	// Nor does it while nobody sees it, and nothing is replaced under a pressed button.
	for _, way := range [][2]string{
		{"Object.defineProperty(document, 'hidden', {value: true, configurable: true})", "[delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))]"},
		{"dispatchEvent(new Event('pointerdown'))", "dispatchEvent(new Event('pointerup'))"},
	} {
		tab.Eval(way[0])
		seen := tab.Fact("Duration")
		known(t, address[1]+address[2], 176)
		require.Equal(t, seen, tab.Fact("Duration"), way[0])
		tab.Eval(way[1])
		shows("document.querySelector('[data-fact=Duration]').firstChild.textContent === '"+seen+"'", "false")
	}

	// When the program does not answer, the page says so, and asks again.
	tab.Eval("[window.kept = fetch, window.fetch = () => Promise.reject(new Error())]")
	shows("/^no answer since \\d\\d:\\d\\d:\\d\\d: /.test(document.querySelector('#live').textContent)", "true")
	tab.Eval("[window.fetch = window.kept]")
	shows("document.querySelector('#live').textContent", "")

	touch("begin4")
	shows("document.querySelector('#live').textContent", "the run has ended")
	require.Equal(t, "finished", tab.Eval("document.querySelector('#status').textContent"))
	require.Equal(t, "176", tab.Fact("Tasks done"))
	require.Equal(t, "4", tab.Fact("Failed"))
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	require.Equal(t, "176", b.Open(t, "file://"+written, 1400, "light").Fact("Tasks done"))
}

// known waits until so many tasks are known to be done, and for two recordings after that: a page that asks has the first one by then.
func known(t *testing.T, address string, done int) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := http.Client{Jar: jar}
	answer, err := client.Get(address)
	require.NoError(t, err)
	answer.Body.Close()
	at := map[int64]bool{}
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		answer, err := client.Get(answer.Request.URL.ResolveReference(&url.URL{Path: "/recording"}).String())
		require.NoError(t, err)
		defer answer.Body.Close()
		rec, err := report.ReadJSON(answer.Body)
		require.NoError(t, err)
		sum := 0
		for _, f := range rec.Funcs {
			sum += f.Done
		}
		if sum == done {
			at[rec.Last] = true
		}
		return len(at) == 3
	}, "they are not known")
	client.CloseIdleConnections()
}
