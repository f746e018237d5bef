//go:build unix

package docker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

// Whatever a test uses, it can be run alone: nothing that it leaves open is
// closed only by others.
func TestATestByItself(t *testing.T) {
	t.Parallel()
	if engine() == nil {
		t.Skip("no docker engine answers")
	}
	out, err := fibertest.ByItself(t, "TestContainersThatCannotStart/no_engine")
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestContainersThatCannotStart/no_engine")
}
