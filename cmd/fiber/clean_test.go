package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The age of a secret is told by the clock of its cluster, not by the user's.
func TestCleanGoesByTheClustersClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		now := time.Now().Add(off)
		cluster := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
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
		})
		stdout, stderr, code := fiber(t, t.TempDir(), []string{cluster}, "clean", "--dry-run")
		require.Zero(t, code, stderr)
		require.Equal(t, "secret old\n", stdout, off)
	}
}

// fakeCluster returns the variable with which the command asks this API server.
func fakeCluster(t *testing.T, api http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, server.URL))
	return "KUBECONFIG=" + config
}

// A namespace whose pods can't be listed is not good, whatever the reason.
func TestDoctorAndANamespaceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion": "v1.99"}`)
			return
		}
		w.WriteHeader(http.StatusBadRequest) // others are tried again for a while
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the store is down", "code": 400}`)
	})
	stdout, _, code := fiber(t, t.TempDir(), []string{cluster, "FIBER_REGISTRY=", "FIBER_BACKEND=slurm", "FIBER_SLURM_PARTITION=batch"}, "doctor")
	assert.Equal(t, 1, code)
	assert.Contains(t, stdout, "note  settings     slurm_partition = batch, which")
	assert.Contains(t, stdout, "Kubernetes v1.99\n")
	assert.Regexp(t, `(?m)^BAD +namespace +.*the store is down`, stdout)
}

// A build of less than five seconds writes nothing where no terminal removes it.
func TestShortBuildsAreSilent(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "items": []}`)
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), "package main\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\n[ $1 = list ] && echo main\n"), 0o755))
	_, stderr, code := fiber(t, dir, []string{cluster, "FIBER_REGISTRY=none", "PATH=" + dir}, "run", "-a", "main.go")
	assert.Equal(t, 1, code)
	assert.Equal(t, "fiber: main.go does not build: see go's output above\n", stderr)
}
