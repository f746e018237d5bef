package pipe

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/internal/object"
)

func TestMain(m *testing.M) {
	object.Grace = 2 * time.Second // a busy machine may take long to claim an end without a holder
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString("leak: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
