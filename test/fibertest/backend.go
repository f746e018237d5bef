//go:build unix

package fibertest

import (
	"flag"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// backendKey names the backend that the tests run on; local when it is not
// set.
const backendKey = "FIBER_TEST_BACKEND"

// elsewhere has the tests, and the programs that they start, run on another
// backend. Its children have the tests' temporary files.
func elsewhere(backend, dir string) {
	files := filepath.Join(dir, "files")
	syscall.Umask(0) // its children are other users
	if err := os.Mkdir(files, 0o777); err != nil {
		panic(err)
	}
	for key, value := range map[string]string{
		"FIBER_BACKEND": backend, "FIBER_ENV": "*", "TMPDIR": files, "FIBER_DOCKER_VOLUMES": files + ":" + files,
	} {
		os.Setenv(key, value)
	}
	flag.Parse()
	var skipped []string
	if backend == "kubernetes" {
		onCluster(files)
		for _, names := range notOnACluster {
			for _, name := range names {
				skipped = append(skipped, "^"+name)
			}
		}
		if testing.Short() {
			skipped = append(skipped, longOnACluster...)
		}
	}
	for _, names := range onThisMachine {
		for _, name := range names {
			skipped = append(skipped, "^"+strings.ReplaceAll(name, "/", "$/^"))
			if !strings.Contains(name, "/") {
				skipped[len(skipped)-1] += "$"
			}
		}
	}
	flag.Set("test.skip", strings.Join(skipped, "|"))
}

// pace is how much longer a test's work is for workers that take longer to
// come up.
func pace() int {
	if b := os.Getenv(backendKey); b != "" && b != "local" && b != "inline" {
		return 5
	}
	return 1
}

// Paced is how long something may take that takes d at most with local workers.
func Paced(d time.Duration) time.Duration { return time.Duration(pace()) * d }

// Self tells this process from all others of a run.
func Self() int {
	if b := os.Getenv(backendKey); b != "" && b != "local" && b != "inline" {
		// Each has process ids of its own there, and a host name.
		host, _ := os.Hostname()
		if id, err := strconv.ParseInt(host, 16, 63); err == nil {
			return int(id)
		}
		sum := fnv.New32()
		sum.Write([]byte(host))
		return int(sum.Sum32())
	}
	return self.Of().PID // also on the backend inline
}
