//go:build unix

package waits_test

import (
	"flag"
	"runtime"
	"testing"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "16") // most of the time, they wait
	runtime.GOMAXPROCS(64)          // so that callers read by themselves, however many wait at once
	fibertest.Main(m)
}
