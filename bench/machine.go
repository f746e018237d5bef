//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A machine is what a run's figures depend on besides the code.
type machine struct {
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	CPU        string `json:"cpu,omitempty"`
	Memory     string `json:"memory,omitempty"`
	Kernel     string `json:"kernel,omitempty"`
	Platform   string `json:"platform"`
	Go         string `json:"go"`
	Python     string `json:"python"`
	Commit     string `json:"commit,omitempty"`
	Load       string `json:"load,omitempty"` // when the run began
}

func thisMachine() machine {
	python, err := findPython()
	if err == nil {
		python = output(python, "--version")
	} else {
		python = err.Error()
	}
	return machine{
		CPUs:       runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		CPU:        field("/proc/cpuinfo", "model name"),
		Memory:     field("/proc/meminfo", "MemTotal"),
		Kernel:     content("/proc/sys/kernel/osrelease"),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Go:         runtime.Version(),
		Python:     python,
		Commit:     output("git", "describe", "--always", "--dirty"),
		Load:       content("/proc/loadavg"),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%d CPUs (%s), GOMAXPROCS %d, %s, %s, kernel %s, load %s",
		m.CPUs, m.CPU, m.GOMAXPROCS, m.Go, m.Python, m.Kernel, m.Load)
}

// output returns what a command prints, or nothing if it fails.
func output(name string, args ...string) string {
	b, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(b))
}

// content returns a file's text, or nothing if there is none.
func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// field returns the value of a "key: value" line of a file, or nothing if there is none.
func field(path, key string) string {
	for line := range strings.Lines(content(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
