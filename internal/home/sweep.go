package home

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// sweepAge is how old a directory is at least that nobody is in.
const sweepAge = time.Minute

// ofRun is what the directories of runs are called; see launch.Node.Directory.
var ofRun = regexp.MustCompile(`^fiber-[0-9a-f]{12}$`)

// sweep removes the directories of runs whose processes were all killed: none
// of their sockets is listened at any more. Others' are not ours to remove,
// and stay.
func sweep(runtimeDir string) {
	dirs, _ := filepath.Glob(filepath.Join(runtimeDir, "fiber-*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !ofRun.MatchString(filepath.Base(dir)) || !info.IsDir() || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		sockets, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			continue
		}
		if !anyListens(sockets) {
			os.RemoveAll(dir)
		}
	}
}

func anyListens(sockets []string) bool {
	for _, path := range sockets {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSocket == 0 {
			return true // not what a run leaves
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			return true
		}
	}
	return false
}
