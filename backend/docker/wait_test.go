//go:build unix

package docker_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
)

// hanging is an engine that does not answer one request until it is told to.
type hanging struct {
	on      string        // a part of that request, as in "POST /containers/create"
	came    chan struct{} // receives an element for each
	answer  chan struct{} // closed when it is to answer
	removed chan struct{} // receives an element for each container that is removed
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	if strings.Contains(what, h.on) {
		h.came <- struct{}{}
		<-h.answer
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Api-Version", "1.41")
	switch {
	case strings.HasSuffix(what, "/info"):
		fmt.Fprint(w, `{"NCPU": 4, "OperatingSystem": "none"}`)
	case strings.HasSuffix(what, "/version"):
		fmt.Fprintf(w, `{"Os": "linux", "Arch": %q}`, runtime.GOARCH)
	case strings.HasSuffix(what, "/containers/json"):
		fmt.Fprint(w, `[]`)
	case strings.HasSuffix(what, "/containers/create"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"Id": "made"}`)
	case strings.HasSuffix(what, "/images/x:y/json") && h.on == "/containers/create":
		fmt.Fprintf(w, `{"Id": "x", "Os": "linux", "Architecture": %q}`, runtime.GOARCH)
	case r.Method == http.MethodDelete:
		h.removed <- struct{}{}
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(what, "/_ping"):
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message": "none"}`)
	}
}

// Whatever a launch waits for, an engine that does not answer or another launch's image, it returns when its context ends. If
// the other launch is given up, the next one goes on.
func TestLaunchesHeedTheirContexts(t *testing.T) {
	for what, on := range map[string]string{"the engine": "GET /v1.41/info", "the image": "/images/create", "the container": "/containers/create"} {
		t.Run(what, func(t *testing.T) {
			h := &hanging{on: on, came: make(chan struct{}, 9), answer: make(chan struct{}), removed: make(chan struct{}, 9)}
			at := filepath.Join(t.TempDir(), "engine")
			l, err := net.Listen("unix", at)
			require.NoError(t, err)
			server := httptest.NewUnstartedServer(h)
			server.Listener.Close()
			server.Listener = l
			server.Start()
			defer server.Close()
			release := sync.OnceFunc(func() { close(h.answer) })
			defer release()
			t.Setenv("DOCKER_HOST", "unix://"+at)

			b := docker.New(config.Config{Image: "x:y"})
			launch := func(within time.Duration) (giveUp context.CancelFunc, launched chan error) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				launched = make(chan error, 1)
				go func() {
					_, err := b.Launch(ctx, backend.JobSpec{Name: "Job"})
					launched <- err
				}()
				return cancel, launched
			}
			stopFirst, first := launch(patience)
			<-h.came
			_, second := launch(50 * time.Millisecond) // by then it waits, too
			stopThird, third := launch(patience)
			require.ErrorIs(t, <-second, context.DeadlineExceeded)
			require.Empty(t, first, "it still waits")
			require.Empty(t, third, "it still waits")
			stopFirst()
			require.ErrorIs(t, <-first, context.Canceled)
			<-h.came
			stopThird()
			require.ErrorIs(t, <-third, context.Canceled)
			release()
			if what == "the container" { // an engine that has begun to make a container finishes
				<-h.removed
			}
			require.NoError(t, b.Close(soon(t)))
		})
	}
}
