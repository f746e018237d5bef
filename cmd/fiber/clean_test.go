package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The age of a secret is told by the clock of its cluster, not by the user's.
func TestCleanGoesByTheClustersClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		now := time.Now().Add(off)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			secret := func(name string, age time.Duration) string {
				return fmt.Sprintf(`{"metadata": {"name": %q, "creationTimestamp": %q}}`, name, now.Add(-age).UTC().Format(time.RFC3339))
			}
			w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Type", "application/json")
			switch filepath.Base(r.URL.Path) {
			case "pods":
				fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "items": []}`)
			case "secrets": // the last one was made before the cluster's clock was put back
				fmt.Fprintf(w, `{"kind": "SecretList", "apiVersion": "v1", "items": [%s, %s, %s]}`,
					secret("old", time.Hour), secret("new", time.Minute), secret("ahead", -24*time.Hour))
			default: // the time, which even a refusal has
				w.WriteHeader(http.StatusForbidden)
			}
		}))
		t.Cleanup(server.Close)
		config := filepath.Join(t.TempDir(), "config")
		write(t, config, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, server.URL))
		stdout, stderr, code := fiber(t, t.TempDir(), []string{"KUBECONFIG=" + config}, "clean", "--dry-run")
		require.Zero(t, code, stderr)
		require.Equal(t, "secret old\n", stdout, off)
	}
}
