//go:build unix

package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
)

// objects reads what the client sends.
var objects = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// hanging is a cluster that does not answer one request until it is told to.
type hanging struct {
	on     string        // the end of that request, as in "POST pods"
	came   chan struct{} // receives an element for each
	answer chan struct{} // closed when it is to answer

	mu      sync.Mutex
	deleted []string
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, resource, _ := strings.Cut(r.URL.Path, "/namespaces/team/")
	what, watch := r.Method+" "+resource, r.URL.Query().Get("watch") != ""
	if watch {
		what = "WATCH " + resource
	}
	if what == h.on {
		h.came <- struct{}{}
		<-h.answer
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case what == "GET pods":
		fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
	case what == "GET secrets":
		fmt.Fprint(w, `{"kind": "SecretList", "apiVersion": "v1", "items": []}`)
	case watch:
		fmt.Fprint(w, `{"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "1",
			"annotations": {"k8s.io/initial-events-end": "true"}}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case what == "POST pods":
		body, _ := io.ReadAll(r.Body)
		pod, _, err := objects.Decode(body, nil, nil)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": %q, "uid": "1"}}`, pod.(*corev1.Pod).Name)
	case what == "POST secrets":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "secret", "uid": "1"}}`)
	default:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.deleted = append(h.deleted, what)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
	}
}

// Whatever a launch waits for, a cluster that does not answer or another launch that asks it, it returns when its context ends.
// What the cluster does make is removed.
func TestLaunchesHeedTheirContexts(t *testing.T) {
	for _, on := range []string{"GET secrets", "POST secrets", "WATCH pods", "POST pods"} {
		t.Run(on, func(t *testing.T) {
			h := &hanging{on: on, came: make(chan struct{}, 9), answer: make(chan struct{})}
			server := httptest.NewServer(h)
			defer server.Close()
			release := sync.OnceFunc(func() { close(h.answer) })
			defer release()
			t.Setenv("KUBECONFIG", template(t, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
				"clusters": [{"name": "c", "cluster": {"server": "`+server.URL+`"}}],
				"contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "team"}}]}`))

			b := kubernetes.New(config.Config{Image: "x:y"}, slog.New(slog.DiscardHandler))
			launch := func(within time.Duration) (giveUp context.CancelFunc, launched chan error) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				launched = make(chan error, 1)
				go func() {
					_, err := b.Launch(ctx, backend.JobSpec{Name: "Job", Run: "run"})
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
			if on == "GET secrets" { // what the first one has left is for the next
				<-h.came
			}
			stopThird()
			require.ErrorIs(t, <-third, context.Canceled)
			release()
			closing, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, b.Close(closing))
			if on == "POST pods" {
				require.Regexp(t, "DELETE pods/fiber-job-", h.deleted)
			}
			if strings.HasPrefix(on, "POST") {
				require.Regexp(t, "DELETE secrets/fiber-.*", h.deleted)
			}
		})
	}
}
