package tree

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fiber-go/fiber/internal/runs"
)

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
	entries, _ := os.ReadDir(runtimeDir)
	for _, e := range entries {
		if e.IsDir() && runs.IsDirectory(e.Name()) { // a link may lead to another user's choice of a directory
			sweepRun(filepath.Join(runtimeDir, e.Name()))
		}
	}
}

// sweepRun sweeps the directory of a run, unless the run is alive: then its root will remove it.
func sweepRun(dir string) {
	privates, _ := os.ReadDir(dir)
	for _, e := range privates {
		if !e.IsDir() {
			continue
		}
		private := filepath.Join(dir, e.Name())
		sockets, _ := os.ReadDir(private)
		for _, s := range sockets {
			socket := filepath.Join(private, s.Name())
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
