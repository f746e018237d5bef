//go:build unix

package metrics_test

import (
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) { fibertest.Main(m) }
