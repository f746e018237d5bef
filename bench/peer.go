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

// peersPython is the interpreter of the virtual environment that has the peers, if there is one.
var peersPython string

// errAbsent is wrapped by the errors of peers that are not on this machine.
var errAbsent = errors.New("not installed")

// A peer is a process of Python with one of Fiber's peers. It keeps its pools from one command to the next.
type peer struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string // closed at its end
}

// findPython returns the interpreter to compare with: that of the peers, or the system's own if there is one, since a version
// manager's shim is slow to start.
func findPython() (string, error) {
	for _, name := range []string{peersPython, "/usr/bin/python3", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("python3 is %w", errAbsent)
}

// startPeer starts a peer that lives as long as the match.
func startPeer(ctx context.Context, m *match, name string) (*peer, error) {
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
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "BENCH_PEER="+dir) // by which it finds all of its processes
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
	answer, err := p.answer(ctx, peerWarm)
	if err != nil {
		return nil, err
	}
	version, ready := strings.CutPrefix(answer, "ready ")
	if !ready {
		return nil, fmt.Errorf("%w: %s", errAbsent, strings.TrimPrefix(answer, "error "))
	}
	p.version = version
	return p, nil
}

// close has the peer end its processes. It kills the peer if that takes too long, and then what is left.
func (p *peer) close() {
	p.in.Close()
	timer := time.AfterFunc(peerEnd, func() { p.cmd.Process.Kill() })
	go func() {
		for range p.answers {
		}
	}()
	p.cmd.Wait()
	timer.Stop()
	group := -p.cmd.Process.Pid
	for end := time.Now().Add(peerEnd / 4); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // they remove what they have in /dev/shm
	}
	syscall.Kill(group, syscall.SIGKILL)
}

// answer returns the peer's next line.
func (p *peer) answer(ctx context.Context, within time.Duration) (string, error) {
	select {
	case line, ok := <-p.answers:
		if !ok {
			return "", errors.New("it has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(within):
		return "", fmt.Errorf("it does not answer within %v", within)
	}
}

// run runs one command in the peer and returns its answer, the seconds it took by the peer's own clock or another figure.
func (p *peer) run(ctx context.Context, command string, within time.Duration) (float64, error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return 0, err
	}
	answer, err := p.answer(ctx, within)
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
	run := func(ctx context.Context, n int) (float64, error) {
		return p.run(ctx, fmt.Sprint(command, " ", n), 10*peerWarm)
	}
	start := func(ctx context.Context, m *match) (version string, err error) {
		if p, err = startPeer(ctx, m, name); err != nil {
			return "", err
		}
		_, err = p.run(ctx, command+" 1", peerWarm)
		return p.version, err
	}
	return reference{contender: contender{name: name, ops: ops, run: run}, bound: b, open: start}
}

// multiprocessing is besidePeer with Python's own.
func multiprocessing(b bound, ops int, command string) reference {
	return besidePeer("multiprocessing", b, ops, command)
}
