//go:build unix

package dashboard_test

import (
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) { fibertest.Main(m) }
