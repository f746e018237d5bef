//go:build unix

package fibertest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// aloneKey is set in a process that runs one test by itself.
const aloneKey = "TEST_ALONE"

// Alone has a test run in a process of its own, with settings that the others
// do not have, and says whether that has been done. In that process it is
// false: the test is to begin.
func Alone(t *testing.T, settings ...string) bool {
	t.Helper()
	if os.Getenv(aloneKey) != "" {
		return false
	}
	out, err := ByItself(t, t.Name(), settings...)
	require.NoError(t, err, "%s", out)
	return true
}

// ByItself runs a single test, as go test -run does, in a process of its own.
func ByItself(t *testing.T, name string, env ...string) (output []byte, err error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-of-fiber") // a short name: there are sockets in it
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(Within(t, 2*Patience), "/proc/self/exe", "-test.run=^"+strings.ReplaceAll(name, "/", "$/^")+"$",
		"-test.v", fmt.Sprintf("-test.short=%t", testing.Short()), "-test.timeout="+(2*Patience).String())
	cmd.Env = append(os.Environ(), append(env, aloneKey+"=yes", dirKey+"="+dir)...)
	return cmd.CombinedOutput()
}
