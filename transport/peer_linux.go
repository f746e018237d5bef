package transport

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// checkPeer returns ErrAuth unless the peer is a process of our own user.
func checkPeer(nc *net.UnixConn) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: process %d of user %d", ErrAuth, cred.Pid, cred.Uid)
	}
	return nil
}
