//go:build unix

package tree

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/transport"
)

// socketPair makes a connected pair: this process's end, and the child's.
func socketPair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock() // no fork may come in between
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "fiber-parent")
	nc, err := transport.Inherit(fds[0])
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return nc, theirs, nil
}

// keepInherited keeps programs that this process starts from inheriting its
// socket.
func keepInherited(fd int) { unix.CloseOnExec(fd) }
