//go:build unix

package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peers.py
var peerScript string

const (
	// peerWarm is how long a peer may take to start its processes and to do the work once.
	peerWarm = 2 * time.Minute
	// peerEnd is how long it may take to end them.
	peerEnd = 20 * time.Second
)

// peersPython is the interpreter that has the peers; without one it is findPython's.
var peersPython string

// A peer is a process of Python with one of Fiber's peers. It keeps its pools from one command to the next.
type peer struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string // closed at its end
}

// findPython returns the interpreter to compare with: the system's own if there is one, since a version
// manager's shim is slow to start.
func findPython() (string, error) {
	for _, name := range []string{peersPython, "/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("python3 is not installed")
}

// startPeer starts a peer that lives as long as the match.
func startPeer(m *match, name string) (*peer, error) {
	python, err := findPython()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-peer-")
	if err != nil {
		return nil, err
	}
	m.closing(func() { os.RemoveAll(dir) })
	script := filepath.Join(dir, "peers.py") // some peers' processes read it again
	if err := os.WriteFile(script, []byte(peerScript), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(python, "-u", script, name)
	cmd.Env = append(os.Environ(), "BENCH_PEER="+dir) // by which it finds all of its processes
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	p := &peer{cmd: cmd, in: in, answers: make(chan string)}
	go func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.answers <- lines.Text()
		}
	}()
	m.closing(p.close)
	answer, err := p.answer(peerWarm)
	if err != nil {
		return nil, err
	}
	version, ready := strings.CutPrefix(answer, "ready ")
	if !ready {
		return nil, errors.New(strings.TrimPrefix(answer, "error "))
	}
	p.version = version
	return p, nil
}

// close has the peer end its processes, and kills those that are left.
func (p *peer) close() {
	p.in.Close()
	kill := func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	timer := time.AfterFunc(peerEnd, kill)
	defer timer.Stop()
	for range p.answers {
	}
	p.cmd.Wait()
	kill()
}

// answer returns the peer's next line.
func (p *peer) answer(within time.Duration) (string, error) {
	select {
	case line, ok := <-p.answers:
		if !ok {
			return "", errors.New("it has ended")
		}
		return line, nil
	case <-time.After(within):
		return "", fmt.Errorf("it does not answer within %v", within)
	}
}

// run runs one command in the peer and returns its answer, the seconds it took by the peer's own clock or another figure.
func (p *peer) run(command string, within time.Duration) (float64, error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return 0, err
	}
	answer, err := p.answer(within)
	if err != nil {
		return 0, err
	}
	figure, err := strconv.ParseFloat(answer, 64)
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(answer, "error "))
	}
	return figure, nil
}

// besidePeer returns the reference that runs command, with the number of operations appended, in a peer.
func besidePeer(name string, b bound, ops int, command string) reference {
	var p *peer
	run := func(_ context.Context, n int) (float64, error) {
		return p.run(fmt.Sprint(command, " ", n), 10*peerWarm)
	}
	start := func(m *match) (version string, err error) {
		if p, err = startPeer(m, name); err != nil {
			return "", err
		}
		_, err = p.run(command+" 1", peerWarm)
		return p.version, err
	}
	return reference{contender: contender{name: name, ops: ops, run: run}, bound: b, open: start}
}

// multiprocessing is besidePeer with Python's own.
func multiprocessing(b bound, ops int, command string) reference {
	return besidePeer("multiprocessing", b, ops, command)
}
