//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// floorVariable marks a process as the far side of a floor and names its role. The process runs this same
// executable, so its package initialisation is that of Fiber's processes.
const floorVariable = "BENCH_FLOOR"

// serveFloor is the far side's main. The roles with a socket, except exit, end on end-of-file.
func serveFloor(role string) {
	role, argument, _ := strings.Cut(role, ":")
	size, _ := strconv.Atoi(argument)
	switch role {
	case "say":
		os.Stdout.WriteString("!")
		os.Exit(0)
	case "call":
		if err := call(argument); err != nil {
			fmt.Fprintln(os.Stderr, "bench: floor:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case crowdName:
		serveCrowd()
	case "tls":
		if err := dialTLS(argument); err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, "bench: floor:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	file := os.NewFile(3, "socket")
	var err error
	switch role {
	case "echo":
		err = serve(file, polled, size, nil)
	case "block":
		err = serve(file, blocking, size, nil)
	case "sleep":
		err = serve(file, polled, 8, func(b []byte) error {
			time.Sleep(time.Duration(binary.LittleEndian.Uint64(b)))
			return nil
		})
	case "sum":
		err = serve(file, polled, 8, sumInherited)
	case "evaluate":
		var work func([]byte) error
		if work, err = evaluateInherited(size); err == nil {
			err = serve(file, polled, 8, work)
		}
	case "ring":
		err = serveRing(size, file)
	case "answer":
		err = answerAll(file)
	case "exit":
		_, err = file.Write([]byte{1})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "bench: floor:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers each message of size bytes with the same bytes, after work, which may change them.
func serve(file *os.File, open opener, size int, work func([]byte) error) error {
	c, err := open(file)
	if err != nil {
		return err
	}
	r, buf := bufio.NewReader(c), make([]byte, size)
	for {
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		if work != nil {
			if err := work(buf); err != nil {
				return err
			}
		}
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
}

// An opener makes a connection from one end of a socket pair, which it takes over.
type opener func(*os.File) (io.ReadWriteCloser, error)

// polled uses Go's network poller, as package net does.
func polled(f *os.File) (io.ReadWriteCloser, error) {
	defer f.Close()
	return net.FileConn(f)
}

// blocking uses blocking system calls, at the cost of a thread for each connection.
func blocking(f *os.File) (io.ReadWriteCloser, error) { return f, nil }

// A floor is a process on the far side of a bare socket pair.
type floor struct {
	conn io.ReadWriteCloser
	r    *bufio.Reader
	cmd  *exec.Cmd
}

// startFloor starts a floor, which inherits files as its descriptors from 4 on.
func startFloor(role string, open opener, files ...*os.File) (*floor, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	far := os.NewFile(uintptr(fds[1]), "far")
	defer far.Close()
	conn, err := open(os.NewFile(uintptr(fds[0]), "near"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), floorVariable+"="+role)
	cmd.ExtraFiles = append([]*os.File{far}, files...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	return &floor{conn: conn, r: bufio.NewReader(conn), cmd: cmd}, nil
}

// openFloor starts a floor that lives as long as the match.
func openFloor(m *match, role string, open opener, files ...*os.File) (*floor, error) {
	f, err := startFloor(role, open, files...)
	if err == nil {
		m.closing(func() { f.close() })
	}
	return f, err
}

// openFloors starts n of them.
func openFloors(m *match, n int, role string, open opener, files ...*os.File) ([]*floor, error) {
	floors := make([]*floor, n)
	for i := range floors {
		f, err := openFloor(m, role, open, files...)
		if err != nil {
			return nil, err
		}
		floors[i] = f
	}
	return floors, nil
}

// close lets the far side see end-of-file, and waits for it to end.
func (f *floor) close() error {
	f.conn.Close()
	return f.cmd.Wait()
}

func (f *floor) send(b []byte) error {
	_, err := f.conn.Write(b)
	return err
}

// receive fills b with the far side's answer.
func (f *floor) receive(b []byte) error {
	_, err := io.ReadFull(f.r, b)
	return err
}

// askAll sends b to all floors before it waits for the first answer, which is the same for all.
func askAll(floors []*floor, b, answer []byte) error {
	for _, f := range floors {
		if err := f.send(b); err != nil {
			return err
		}
	}
	got := make([]byte, len(answer))
	for _, f := range floors {
		if err := f.receive(got); err != nil {
			return err
		}
		if !bytes.Equal(got, answer) {
			return fmt.Errorf("the answer is %x instead of %x", got, answer)
		}
	}
	return nil
}

// rawEcho is the floor under Apply: a message of size bytes there and back over a bare unix socket. Both
// sides reuse their buffers.
func rawEcho(m *match, size int) (contender, error) {
	return openRawEcho(m, "raw socket", "echo", size, polled)
}

// blockingEcho is rawEcho without the network poller on either side.
func blockingEcho(m *match, size int) (contender, error) {
	return openRawEcho(m, "blocking socket", "block", size, blocking)
}

func openRawEcho(m *match, name, role string, size int, open opener) (contender, error) {
	f, err := openFloor(m, role+":"+strconv.Itoa(size), open)
	out, in := make([]byte, size), make([]byte, size)
	return contender{name: name, run: timed(func(_ context.Context, n int) error {
		for range n {
			if err := f.send(out); err != nil {
				return err
			}
			if err := f.receive(in); err != nil {
				return err
			}
		}
		return nil
	})}, err
}
