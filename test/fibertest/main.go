//go:build unix

// Package fibertest has what the tests of pools, processes, objects and the like
// in test share with one another and with the root package's examples: Main,
// which their TestMain calls, functions and programs for other processes, ways to
// wait, and the lists of the tests that some backends leave out.
package fibertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/object"
)

// Grace is the suite's cancel_grace: functions that ignore their context
// are ended soon. Tests of those that heed it need more, or a busy machine ends
// them as well: see Alone.
const Grace = 500 * time.Millisecond

// silence is the suite's heartbeat_timeout, longer than any test waits. A
// busy machine loses no process that way, and what a test learns of a lost one
// it learns from its end.
const silence = time.Hour

// Lapse is how long an object of the suite lives that nobody holds.
const Lapse = 5 * time.Second

// dirKey names the runtime directory to the children, which need no other.
const dirKey = "FIBER_TEST_RUNTIME_DIR"

// PrefixKey is log_prefix in the environment.
const PrefixKey = "FIBER_LOG_PREFIX"

// Main is what TestMain calls. It runs the tests in a process that Fiber starts
// again as its children, and fails the run for whatever they leave behind.
func Main(m *testing.M) {
	object.Grace = Lapse
	if name := os.Getenv(ProgramKey); name != "" {
		runProgram(name)
	}
	dir := os.Getenv(dirKey)
	pulls := dir == "" && os.Getenv(backendKey) == "kubernetes"
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "test-of-fiber"); err != nil {
			panic(err)
		}
		takeTurn()
		os.Setenv(dirKey, dir)
		os.Setenv(PrefixKey, "off") // most tests look at what processes write, not at who has
		if b := os.Getenv(backendKey); b != "" && b != "local" {
			elsewhere(b, dir)
		}
	}
	config := fiber.Config{RuntimeDir: dir}
	if os.Getenv(aloneKey) == "" { // otherwise the test says itself what it needs
		config.CancelGrace, config.HeartbeatTimeout = Grace, silence
	}
	if err := fiber.Init(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	before := OpenFiles()
	if pulls {
		if err := pull(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := fiber.Shutdown(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for _, leak := range leaks(dir, before) {
		fmt.Fprintln(os.Stderr, "leak:", leak)
		code = max(code, 1)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// takeTurn has this process wait until the tests of no other package run, for as
// long as it lives. Each package keeps a machine busy by itself, and tests that
// look at the time would be disturbed by another one. It does so where the tests
// run in the repository, whose folder is the lock.
func takeTurn() {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return
		}
		dir = filepath.Dir(dir)
	}
	folder, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	for err == nil || err == syscall.EINTR {
		if err = syscall.Flock(folder, syscall.LOCK_EX); err == nil {
			return
		}
	}
}

// leaks lists what is left after Shutdown.
func leaks(runtimeDir string, filesBefore []string) (found []string) {
	if err := goleak.Find(); err != nil {
		found = append(found, err.Error())
	}
	for _, pid := range ChildrenOf(os.Getpid()) {
		found = append(found, fmt.Sprintf("process %d: %s", pid, CommandOf(pid)))
	}
	entries, _ := os.ReadDir(runtimeDir)
	for _, e := range entries {
		if e.Name() != "files" {
			found = append(found, "in the runtime directory: "+e.Name())
		}
	}
	for _, f := range OpenFiles() {
		if !slices.Contains(filesBefore, f) {
			found = append(found, "open file "+f)
		}
	}
	return found
}

// OpenFiles lists this process's open files, without those that the Go
// runtime opens for itself.
func OpenFiles() (files []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/proc/") ||
			strings.HasPrefix(target, "/sys/fs/cgroup") {
			continue
		}
		files = append(files, e.Name()+" "+target)
	}
	return files
}
