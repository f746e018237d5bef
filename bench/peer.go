//go:build unix

package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

//go:embed peers.py
var peerScript string

// A peer is a process with Python's multiprocessing. It keeps its pools from one command to the next.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// findPython returns the interpreter to compare with: the system's own if there is one, since a version
// manager's shim is slow to start.
func findPython() (string, error) {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("python3 is not installed")
}

func startPeer(python string) (*peer, error) {
	cmd := exec.Command(python, "-u", "-c", peerScript)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &peer{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

func (p *peer) close() {
	p.in.Close()
	p.cmd.Wait()
}

// run runs one command in the peer and returns the seconds it took, by the peer's own clock.
func (p *peer) run(command string) (float64, error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return 0, err
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("no answer to %q: %w", command, err)
	}
	answer = strings.TrimSpace(answer)
	seconds, err := strconv.ParseFloat(answer, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %s", command, answer)
	}
	return seconds, nil
}

// multiprocessing returns the reference that runs command, with the number of operations appended, in Python.
// Without a python3 the reference is marked absent.
func multiprocessing(m *match, b bound, ops int, command string) (reference, error) {
	ref := reference{contender: contender{name: "multiprocessing", ops: ops}, bound: b}
	python, err := findPython()
	if err != nil {
		ref.absent = err.Error()
		return ref, nil
	}
	p, err := startPeer(python)
	if err != nil {
		return ref, err
	}
	m.closing(p.close)
	ref.run = func(_ context.Context, n int) (float64, error) {
		return p.run(command + " " + strconv.Itoa(n))
	}
	return ref, nil
}
