//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
)

// far is the engine behind a proxy: its clock differs from this machine's, and its answers may break off.
type far struct {
	off time.Duration // what the engine's clock is ahead
	set time.Time     // since then

	mu      sync.Mutex
	silent  bool // waits are not answered
	silence []context.CancelFunc
}

// dates are when containers were made.
var dates = regexp.MustCompile(`"(Created)":(\d+|"[^"]+")`)

// newFar makes backends created from now on use the engine through a proxy. Dates after a given time come from a clock that
// is ahead.
func newFar(t *testing.T, off time.Duration, set time.Time) *far {
	f := &far{off: off, set: set}
	at, err := client.ParseHostURL(engine.DaemonHost())
	require.NoError(t, err)
	way := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, at.Scheme, at.Host+at.Path)
	}}
	proxy := &httputil.ReverseProxy{Transport: way, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		ModifyResponse: f.date,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/wait") {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			f.mu.Lock()
			f.silence = append(f.silence, cancel)
			if f.silent {
				cancel()
			}
			f.mu.Unlock()
			r = r.WithContext(ctx)
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	path := filepath.Join(t.TempDir(), "engine")
	server.Listener, err = net.Listen("unix", path)
	require.NoError(t, err)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		way.CloseIdleConnections()
	})
	t.Setenv("DOCKER_HOST", "unix://"+path)
	return f
}

// date dates by the engine's clock.
func (f *far) date(r *http.Response) error {
	if !strings.HasSuffix(r.Request.URL.Path, "/json") {
		return nil
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	b = dates.ReplaceAllFunc(b, func(date []byte) []byte {
		key, value, _ := bytes.Cut(date, []byte(":"))
		var at time.Time
		seconds, err := strconv.ParseInt(string(value), 10, 64)
		if err == nil {
			at = time.Unix(seconds, 0)
		} else if json.Unmarshal(value, &at) != nil {
			return date
		}
		if at.Before(f.set) {
			return date
		}
		if at = at.Add(f.off); err == nil {
			value = strconv.AppendInt(nil, at.Unix(), 10)
		} else {
			value, _ = json.Marshal(at)
		}
		return append(append(key, ':'), value...)
	})
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.Header.Set("Content-Length", strconv.Itoa(len(b)))
	return err
}

// quiet breaks the waits for containers off; none is answered until it is called again.
func (f *far) quiet(silent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = silent
	for _, cancel := range f.silence {
		cancel()
	}
}

// The end of a container while nothing can be heard of the engine is reported, with its exit code, when it answers again,
// although it has removed the container by then.
func TestEndsWhileTheEngineIsSilent(t *testing.T) {
	needEngine(t)
	f := newFar(t, 0, time.Time{})
	b := newBackend(t, config.Config{})
	status := map[backend.Job]backend.ExitStatus{
		up(t, b, spec("heed 7")): {Code: 7},
		up(t, b, spec("heed 0")): {},
	}
	f.quiet(true)
	for j := range status {
		require.NoError(t, engine.ContainerKill(soon(t), j.ID(), "SIGTERM"))
		gone := func() bool {
			_, err := engine.ContainerInspect(soon(t), j.ID())
			return errdefs.IsNotFound(err)
		}
		require.Eventually(t, gone, patience, 10*time.Millisecond)
	}
	f.quiet(false)
	for j, want := range status {
		require.Equal(t, want, ended(t, j))
	}
}

// A container that another run has just made, and will start, is not taken for old, even if the engine's clock is a day
// behind or was put back.
func TestSweepGoesByNoClock(t *testing.T) {
	needEngine(t)
	living := launched(t, newBackend(t, config.Config{}), spec("wait"))
	details, err := engine.ContainerInspect(soon(t), living.ID())
	require.NoError(t, err)
	starting := *details.Config
	starting.Labels = map[string]string{"fiber.root": "another-machine 1 2 3"}
	made, err := engine.ContainerCreate(soon(t), &starting, nil, nil, nil, "")
	require.NoError(t, err)
	t.Cleanup(func() { engine.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}) })
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		newFar(t, off, time.Time{})
		require.Equal(t, backend.ExitStatus{}, ended(t, launched(t, newBackend(t, config.Config{}), spec("exit 0"))))
		_, err := engine.ContainerInspect(soon(t), made.ID)
		require.NoError(t, err, off)
	}
}
