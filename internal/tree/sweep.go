package tree

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// ofRun is what the directories of runs are called; see Node.Directory.
var ofRun = regexp.MustCompile(`^fiber-[0-9a-f]{12}$`)

// RemoveDirectory removes the run's directory, in the root.
func (n *Node) RemoveDirectory() {
	if n.Parent == nil {
		os.RemoveAll(n.Directory())
	}
}

// sweep removes what processes that were killed have left: the sockets at which
// nobody listens, and then the directories of runs that are empty. Those of
// others are not ours to remove, and stay. It goes by no clock, and may come at
// any moment of another run's: Node.Listen begins again when what it makes
// is taken away.
func sweep(runtimeDir string) {
	dirs, _ := filepath.Glob(filepath.Join(runtimeDir, "fiber-*"))
runs:
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || !ofRun.MatchString(filepath.Base(dir)) {
			continue
		}
		privates, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, private := range privates {
			if info, err := os.Lstat(private); err != nil || !info.IsDir() {
				continue
			}
			sockets, _ := filepath.Glob(filepath.Join(private, "*"))
			for _, socket := range sockets {
				if !isLeft(socket) {
					continue runs // its root will remove it: no more of its processes are disturbed
				}
				os.Remove(socket)
			}
			os.Remove(private) // as dir below
		}
		os.Remove(dir) // fails while there is anything in it
	}
}

// isLeft reports whether a socket's process is gone. One that is busy may refuse
// a connection otherwise.
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
