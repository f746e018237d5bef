package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/logmux"
)

// Where the init was killed with a program that has used up its memory, the next pod ends the run in its place.
func TestTheNextPodAfterOneWithoutMemory(t *testing.T) {
	var patched string
	had := false // the Job has had another pod
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v1/namespaces/default/pods":
			require.Contains(t, r.URL.Query().Get("labelSelector"), "batch.kubernetes.io/job-name=mine")
			pod := func(name, job, end string) string {
				return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {%q: %q}, "ownerReferences": [{"kind": "Job", "name": "mine", "uid": %q, "controller": true}]},
					"spec": {"containers": [{"name": "fiber"}]}, "status": {"containerStatuses": [{"name": "fiber", "state": {%s}}]}}`, name, LabelManaged, Manager, job, end)
			}
			const outOfMemory = `"terminated": {"exitCode": 137, "reason": "OOMKilled"}`
			pods := []string{pod("mine-0", "former", outOfMemory), pod("mine-2", "present", `"running": {}`)}
			if had {
				pods = append(pods, pod("mine-1", "present", outOfMemory))
			}
			fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "items": [%s]}`, strings.Join(pods, ", "))
		case "GET /apis/coordination.k8s.io/v1/namespaces/default/leases/mine":
			w.WriteHeader(http.StatusForbidden) // the end of the test: it has come so far
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
		case "GET /apis/batch/v1/namespaces/default/jobs/mine":
			fmt.Fprint(w, `{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "mine"}, "status": {"failed": 1, "uncountedTerminatedPods": {"failed": ["mine-1"]}}}`)
		case "PATCH /apis/batch/v1/namespaces/default/jobs/mine":
			body, _ := io.ReadAll(r.Body)
			patched = string(body)
			fmt.Fprint(w, `{"kind": "Job", "apiVersion": "batch/v1"}`)
		default:
			t.Error(r.Method, r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, server.URL), 0o600))
	t.Setenv("KUBECONFIG", file)
	t.Setenv(PodNameKey, "mine-2")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, (&fence{job: "mine"}).Hold(ctx), context.DeadlineExceeded, "a pod of a former Job is nothing to this one")
	had = true
	f := &fence{job: "mine"}
	require.ErrorContains(t, f.Hold(t.Context()), "mine is not started again: its pod mine-1 has used more memory than it may")
	require.NoError(t, f.Ended(logmux.End{Code: 1}, false))
	require.Equal(t, `{"metadata": {"annotations": {"fiber.failed": "mine-2"}}, "spec": {"backoffLimit": 2}}`, patched, "the Job does not delete this pod")
}
