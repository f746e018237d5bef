package ring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reservePort finds a free TCP port and reserves it. Until release, the kernel
// does not hand it to programs that ask for any port. A program that asks for
// this very port gets it, if it sets SO_REUSEADDR, as servers do.
func reservePort() (port int, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	release = func() { unix.Close(fd) }
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{}) // without listening
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		release()
		return 0, nil, fmt.Errorf("fiber: finding a free port: %w", err)
	}
	return bound.(*unix.SockaddrInet4).Port, release, nil
}
