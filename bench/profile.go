//go:build unix

package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"time"
)

// profileVariable is the path to which workers write their CPU profiles, with
// their process id appended.
const profileVariable = "BENCH_CPUPROFILE"

// workerProfile is how long a worker is profiled from its start; it cannot know
// when it will end.
const workerProfile = 2 * time.Second

// profile writes the root's CPU profile to path until stop is called, and makes
// the workers write theirs.
func profile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(profileVariable, path); err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// profileWorker profiles this process if its root has asked for it.
func profileWorker() {
	path := os.Getenv(profileVariable)
	if path == "" {
		return
	}
	f, err := os.Create(fmt.Sprintf("%s.%d", path, os.Getpid()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: profile:", err)
		return
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		fmt.Fprintln(os.Stderr, "bench: profile:", err)
		return
	}
	time.AfterFunc(workerProfile, func() {
		pprof.StopCPUProfile()
		f.Close()
	})
}
