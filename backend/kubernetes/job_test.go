package kubernetes_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/kube"
)

// refusing refuses all requests.
type refusing struct{ requests atomic.Int32 }

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.requests.Add(1)
	const body = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`
	return answer(request, http.StatusForbidden, body), nil
}

func answer(request *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request}
}

// accepting accepts all requests, and notes what they delete.
type accepting struct {
	mu      sync.Mutex
	deleted []string
}

func (a *accepting) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted = append(a.deleted, path.Base(request.URL.Path)+" "+request.URL.Query().Get("labelSelector"))
	return answer(request, http.StatusOK, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`), nil
}

func (*accepting) CloseIdleConnections() {}

// connect returns a client of a cluster that is not there.
func connect(t *testing.T) *kube.Client {
	t.Setenv("KUBECONFIG", template(t, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://cluster"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`))
	client, err := kube.Connect("")
	require.NoError(t, err)
	return client
}

// However often a job is killed, one forced deletion is due at a time. If it fails, the next Kill makes another due.
func TestKillsForceOneDeletion(t *testing.T) {
	client := connect(t)
	api := new(refusing)
	client.REST.Client = &http.Client{Transport: api}
	synctest.Test(t, func(t *testing.T) {
		j := kubernetes.JobOf(client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "1"}})
		for range 2 {
			api.requests.Store(0)
			for range 5 {
				require.Error(t, j.Signal(t.Context(), backend.Kill))
			}
			require.EqualValues(t, 5, api.requests.Load())
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 6, api.requests.Load())
		}
	})
}

// A job that has said its end before the cluster did needs no forced deletion.
func TestNoForcedDeletionAfterTheEnd(t *testing.T) {
	client := connect(t)
	api := new(refusing)
	client.REST.Client = &http.Client{Transport: api}
	synctest.Test(t, func(t *testing.T) {
		_, jobs := kubernetes.BackendWith(client, slog.New(slog.DiscardHandler))
		require.Error(t, jobs[0].Signal(t.Context(), backend.Kill))
		jobs[0].End(backend.ExitStatus{}, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, api.requests.Load())
	})
}

// Pods whose deletion was refused are deleted together with the next.
func TestPodsThatWereNotDeletedAreTriedAgain(t *testing.T) {
	client := connect(t)
	synctest.Test(t, func(t *testing.T) {
		refuses, accepts := new(refusing), new(accepting)
		client.REST.Client = &http.Client{Transport: refuses}
		var log bytes.Buffer
		_, jobs := kubernetes.BackendWith(client, slog.New(slog.NewTextHandler(&log, nil)))
		for _, j := range jobs {
			j.End(backend.ExitStatus{}, nil)
			require.NoError(t, j.Remove(t.Context()))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 1, refuses.requests.Load())
			client.REST.Client = &http.Client{Transport: accepts}
		}
		require.Contains(t, log.String(), "pods that have ended were not deleted yet", "in the log of the run")
		require.Len(t, accepts.deleted, 1)
		require.Regexp(t, `^pods .* in \((pod-0,pod-1|pod-1,pod-0)\)$`, accepts.deleted[0])
	})
}

// If pods use up the time that Close has, their node being silent, everything is deleted nevertheless.
func TestCloseDeletesWhatDoesNotEnd(t *testing.T) {
	client := connect(t)
	synctest.Test(t, func(t *testing.T) {
		api := new(accepting)
		client.REST.Client = &http.Client{Transport: api}
		b, _ := kubernetes.BackendWith(client, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.NoError(t, b.Close(ctx))
		require.Error(t, ctx.Err())
		require.Len(t, api.deleted, 4, "two pods are killed")
		require.Equal(t, "environment ", api.deleted[2])
		require.Contains(t, api.deleted[3], "pods fiber.")
	})
}
