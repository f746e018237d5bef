// Package browser shows pages in a real browser, for tests.
package browser

import (
	"context"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Browser is the one of all tests of a package.
type Browser struct{ ctx context.Context }

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

// Close ends it. TestMain calls that.
func Close() { closeBrowser() }

// Of returns it, and skips the test if there is none.
func Of(t *testing.T) Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("the race detector finds nothing in a page")
	}
	ctx, err := running()
	if err == exec.ErrNotFound {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	require.NoError(t, err)
	return Browser{ctx}
}

// Tab is a page in a window.
type Tab struct {
	*testing.T
	ctx context.Context
}

// Open loads a page, which may lead to others. Errors on its console and requests for anything else, or for anything that its server does not
// have, fail the test.
func (b Browser) Open(t *testing.T, address string, width int64, scheme string, leadsTo ...string) *Tab {
	t.Helper()
	at, err := url.Parse(address)
	require.NoError(t, err)
	ctx, closeTab := chromedp.NewContext(b.ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // which ends what hangs
	t.Cleanup(cancel)
	p := &Tab{t, ctx}
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
			if !strings.Contains(e.Entry.Text, networkChanged) {
				wrong = append(wrong, e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			own := slices.ContainsFunc(leadsTo, func(to string) bool { return strings.HasPrefix(e.Request.URL, to) }) ||
				at.Host != "" && strings.HasPrefix(e.Request.URL, at.Scheme+"://"+at.Host+"/")
			if !own && !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != at.String() {
				wrong = append(wrong, "request for "+e.Request.URL)
			}
		}
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(t, wrong)
	})
	Call(p, network.Enable, network.EnableParams{})
	Call(p, log.Enable, cdp.Empty{})
	Call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.Run(chromedp.EmulateViewport(width, 900))
	err = chromedp.Do(ctx, chromedp.Navigate(address))
	for err != nil && strings.Contains(err.Error(), networkChanged) {
		err = chromedp.Do(ctx, chromedp.Navigate(address))
	}
	require.NoError(t, err)
	return p
}

// networkChanged is how the browser ends what it loads when an interface comes or goes, as those of containers do. The page asks again.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// Run does something there.
func (p *Tab) Run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, actions...))
}

// Call asks for something of the protocol.
func Call[P, R any](p *Tab, c cdp.Command[P, R], params P) R {
	p.Helper()
	r, err := chromedp.Call(p.ctx, c, params)
	require.NoError(p, err)
	return r
}

// Eval returns the value of an expression, or what it promises, as a text.
func (p *Tab) Eval(expression string) string {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(String)", chromedp.EvalAwaitPromise))
	require.NoError(p, err)
	return value
}

// Fact returns one of the figures of the overview.
func (p *Tab) Fact(name string) string {
	p.Helper()
	return p.Eval("document.querySelector('[data-fact=\"" + name + "\"]').firstChild.textContent")
}

// Keys types keys.
func (p *Tab) Keys(keys string) {
	p.Helper()
	p.Run(chromedp.KeyEvent(keys))
}

// Tip types a key, and returns what is said of a box when that is drawn.
func (p *Tab) Tip(key string) string {
	p.Helper()
	if key != "" {
		p.Keys(key)
	}
	p.Eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
	return p.Eval("document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').textContent")
}
