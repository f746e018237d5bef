package transport_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// TestAnotherUserStaysOut lets another user find the directory open.
func TestAnotherUserStaysOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	l, err := transport.ListenUnix("/tmp", credentials(t), transport.Options{})
	require.NoError(t, err)
	nobody(t, l)
	path := l.Addr().String()
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	require.NoError(t, os.Chmod(path, 0o777))
	var nc net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and end the thread, whose user is changed
		const same, other = ^uintptr(0), 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, other, same); errno != 0 {
			err = errno
			return
		}
		nc, err = net.Dial("unix", path)
	}()
	<-done
	require.NoError(t, err)
	defer nc.Close()
	_, _ = nc.Write(append(greeting(), ready()...))
	got, _ := io.ReadAll(nc)
	require.Empty(t, got, "it is not even greeted")
}
