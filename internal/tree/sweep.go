package tree

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/fiber-go/fiber/internal/runs"
)

// ofRun matches the names of runs' directories; see Node.Directory.
var ofRun = regexp.MustCompile(`^fiber-[0-9a-f]{12}$`)

// RemoveDirectory removes the run's directory, in the root.
func (n *Node) RemoveDirectory() {
	if n.Parent == nil {
		os.RemoveAll(n.Directory())
	}
}

// sweepOnce sweeps, in the root, when it is first called.
func (n *Node) sweepOnce() {
	if n.Parent == nil {
		n.swept.Do(func() { sweep(n.Config.RuntimeDir) })
	}
}

// sweep removes what killed processes have left: sockets at which no process
// listens, and then empty directories of runs. Directories of other users stay,
// since they cannot be removed. sweep uses no clock, and may run at any moment of
// another run: Node.Listen begins again if its new directory is removed.
func sweep(runtimeDir string) {
	dirs, _ := filepath.Glob(filepath.Join(runtimeDir, "fiber-*"))
	for _, dir := range dirs {
		// A link may lead to another user's choice of a directory.
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && ofRun.MatchString(filepath.Base(dir)) {
			sweepRun(dir)
		}
	}
}

// sweepRun sweeps the directory of a run, unless the run is alive: then its root will remove it.
func sweepRun(dir string) {
	privates, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, private := range privates {
		if info, err := os.Lstat(private); err != nil || !info.IsDir() {
			continue
		}
		sockets, _ := filepath.Glob(filepath.Join(private, "*"))
		for _, socket := range sockets {
			if !isLeft(socket) {
				return
			}
			os.Remove(socket)
		}
		os.Remove(private) // as dir below
	}
	runs.Sweep(dir)
	os.Remove(dir) // fails unless it is empty
}

// isLeft reports whether a socket's process is gone. A busy process fails to take
// a connection with another error.
func isLeft(socket string) bool {
	info, err := os.Lstat(socket)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.Dial("unix", socket)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
