//go:build unix

package fiber_test

import (
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

// The examples start processes; the tests that do are in test.
func TestMain(m *testing.M) { fibertest.Main(m) }
