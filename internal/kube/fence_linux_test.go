package kube

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/logmux"
)

// Where the init was killed with a program that has used up its memory, the next pod ends the run in its place.
func TestTheNextPodAfterOneWithoutMemory(t *testing.T) {
	var patched string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v1/namespaces/default/pods":
			require.Contains(t, r.URL.Query().Get("labelSelector"), "batch.kubernetes.io/job-name=mine")
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "mine-1"}, "spec": {"containers": [{"name": "fiber"}]},
				"status": {"containerStatuses": [{"name": "fiber", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}}]}`)
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
	f := &fence{job: "mine"}
	require.ErrorContains(t, f.Hold(t.Context()), "mine is not started again: its pod mine-1 has used more memory than it may")
	require.NoError(t, f.Ended(logmux.End{Code: 1}, false))
	require.Equal(t, `{"spec": {"backoffLimit": 0}}`, patched)
}
