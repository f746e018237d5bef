//go:build unix

package fibertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

const (
	KubeconfigKey = "FIBER_TEST_KUBECONFIG" // names the cluster
	HostKey       = "FIBER_TEST_HOST"       // where the cluster's pods reach this machine
	registryKey   = "FIBER_TEST_REGISTRY"   // where it pulls images from
	ClusterKey    = "CLUSTER_STATE"         // of test/cluster, where the cluster is that
)

// Registry is where the tests push images to.
func Registry() string {
	if r := os.Getenv(registryKey); r != "" {
		return r
	}
	return "localhost:5000"
}

// onCluster has programs find the cluster, and pods the tests' files, which
// are on its only node.
func onCluster(files string) {
	template := filepath.Join(files, "pod.yaml")
	text := fmt.Sprintf(`spec:
  containers:
    - env: [{name: TMPDIR, value: %q}]
      volumeMounts: [{name: files, mountPath: %[1]q}]
  volumes: [{name: files, hostPath: {path: %[1]q}}]
`, files)
	if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
		panic(err)
	}
	for _, kv := range append(ClusterEnv(), "FIBER_POD_TEMPLATE="+template) {
		key, value, _ := strings.Cut(kv, "=")
		os.Setenv(key, value)
	}
}

// pull has the tests' image on the node: one that is new to it is pulled for a few
// pods a second, and the root of a run says so of the others.
func pull() error {
	p := fiber.NewProcess(Getpid, None{})
	if err := p.Start(context.Background()); err != nil {
		return err
	}
	return p.Join(context.Background())
}

// Namespace makes a namespace of the cluster in which pods can be made. It is
// removed when the test ends.
func Namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("fiber-test-%x", time.Now().UnixNano())
	kubectl := func(args ...string) ([]byte, error) {
		return exec.Command("kubectl", append([]string{"--kubeconfig", os.Getenv(KubeconfigKey)}, args...)...).CombinedOutput()
	}
	out, err := kubectl("create", "namespace", name)
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() {
		out, err := kubectl("delete", "namespace", name, "--wait=false")
		require.NoError(t, err, "%s", out)
	})
	Eventually(t, Patience, func() bool {
		_, err := kubectl("get", "serviceaccount", "default", "-n", name)
		return err == nil
	}, "the namespace has no service account")
	return name
}

// ClusterEnv is what a program needs to run on the tests' cluster.
func ClusterEnv() []string {
	host := os.Getenv(HostKey)
	if host == "" {
		host = "10.244.0.1"
	}
	return []string{"FIBER_BACKEND=kubernetes", "FIBER_ENV=*", "KUBECONFIG=" + os.Getenv(KubeconfigKey), "FIBER_HOST=" + host,
		"FIBER_REGISTRY=" + Registry()}
}
