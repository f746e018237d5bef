package tree

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// MismatchError reports a child whose program differs from this process's.
type MismatchError struct{ Reason string }

func (e *MismatchError) Error() string { return "fiber: " + e.Reason }

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// newHello makes this process's hello to the parent that started it.
func newHello(boot wire.Bootstrap, pid int) wire.Hello {
	h := wire.Hello{Process: boot.Process, Version: wire.Version, Platform: platform(), Build: Build(),
		Hash: registry.Hash(), PID: pid}
	if h.Build != boot.Build {
		h.Table = registry.Table()
	}
	return h
}

// fits compares a child's program with this one. The error is a *MismatchError.
func (n *Node) fits(h wire.Hello) error {
	if h.Version != wire.Version {
		return &MismatchError{fmt.Sprintf("the child speaks protocol %d and this process %d; build both with the same version of Fiber", h.Version, wire.Version)}
	}
	if h.Build == Build() {
		if h.Hash != registry.Hash() {
			return &MismatchError{"the child registered other functions than this process, although both are the same build; register functions in package variables, independently of anything at run time"}
		}
		return nil
	}
	if h.Hash != registry.Hash() {
		if diff := firstDifference(registry.Table(), h.Table); diff != "" {
			return &MismatchError{"the child is another build of this program: " + diff}
		}
	}
	if h.Platform == platform() && !n.Config.AllowOtherBuild.Enabled() {
		return &MismatchError{"the child is another build of this program with the same functions; build it again, or set FIBER_ALLOW_OTHER_BUILD=true"}
	}
	return nil
}

// firstDifference describes the first difference between two sorted function
// tables, "" if there is none.
func firstDifference(ours, theirs []string) string {
	for _, f := range ours {
		if !slices.Contains(theirs, f) {
			name, _, _ := strings.Cut(f, "(")
			for _, g := range theirs {
				if strings.HasPrefix(g, name+"(") {
					return fmt.Sprintf("function %s there, %s here", g, f)
				}
			}
			return fmt.Sprintf("function %s is missing there", f)
		}
	}
	for _, g := range theirs {
		if !slices.Contains(ours, g) {
			return fmt.Sprintf("function %s is missing here", g)
		}
	}
	return ""
}
