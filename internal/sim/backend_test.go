//go:build unix

package sim_test

import (
	"testing"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/backendtest"
	"github.com/fiber-go/fiber/internal/sim"
)

// The backend inline does what others do, but for what only a process of an operating system has.
func TestBackend(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backend.Backend { return sim.NewInline(backendtest.Main, func() {}) },
		"MemoryLimit", "hog", "LaunchFailure", "DialBack", "arguments", "stdin", "orphan")
}
