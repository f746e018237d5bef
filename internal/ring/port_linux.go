package ring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reservePort finds a free TCP port and keeps it: until release, the kernel
// gives it to nobody who asks for any port, but who asks for this one, with
// SO_REUSEADDR as servers do, gets it.
func reservePort() (port int, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	release = func() { unix.Close(fd) }
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{}) // and does not listen
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
