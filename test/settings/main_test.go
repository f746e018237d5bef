//go:build unix

package settings_test

import (
	"flag"
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "3") // most of the time, they wait
	fibertest.Main(m)
}
