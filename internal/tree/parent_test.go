//go:build unix

package tree

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// dialled dials a parent at an address, as a child does. Only the first try has a
// time limit: the parent may be there at the second one, with this machine busy.
func dialled(t *testing.T, address string, credentials *transport.Credentials, answer time.Duration, tried func()) error {
	t.Helper()
	tries := 0
	conn, err := keepDialling(answer, func() (*transport.Conn, error) {
		defer tried()
		limit := 2 * time.Second
		if tries++; tries > 1 {
			limit = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return transport.Dial(ctx, "tls:"+address, credentials, transport.Options{})
	})
	if err == nil {
		conn.Close()
	}
	return err
}

// A parent that shares a processor with many others may take long to answer. That
// does not make it unreachable.
func TestAParentThatIsSlow(t *testing.T) {
	t.Parallel()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	parent, err := transport.ListenTLS("127.0.0.1:0", credentials, transport.Options{})
	require.NoError(t, err)
	defer parent.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	tries := 0
	require.NoError(t, dialled(t, l.Addr().String(), credentials, time.Hour, func() {
		if tries++; tries == 1 {
			go passOn(l, parent.Addr().String())
		}
	}))
	require.Equal(t, 2, tries)

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	err = dialled(t, silent.Addr().String(), credentials, 0, func() {})
	require.ErrorIs(t, err, transport.ErrNoAnswer)
	require.NotErrorAs(t, err, new(*UnreachableError))
}

// passOn forwards connections to an address.
func passOn(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go io.Copy(out, in)
			io.Copy(in, out)
		}()
	}
}

func TestAParentThatIsNowhere(t *testing.T) {
	t.Parallel()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	require.ErrorAs(t, dialled(t, l.Addr().String(), credentials, time.Hour, func() {}), new(*UnreachableError))
}

// A parent whose queue of connections is full looks like none at all: packets to
// it are dropped. It is found once there is room.
func TestAParentWithoutRoom(t *testing.T) {
	t.Parallel()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	parent, err := transport.ListenTLS("127.0.0.1:0", credentials, transport.Options{})
	require.NoError(t, err)
	defer parent.Close()
	full, makeRoom := fullListener(t)
	tries := 0
	require.NoError(t, dialled(t, full.Addr().String(), credentials, time.Hour, func() {
		if tries++; tries == 1 {
			makeRoom()
			go passOn(full, parent.Addr().String())
		}
	}))
	require.Equal(t, 2, tries)
}

// fullListener makes a listener that takes no more connections until makeRoom.
func fullListener(t *testing.T) (l net.Listener, makeRoom func()) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	l, err = net.FileListener(f)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	queue, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	return l, func() {
		queue.Close()
		taken, err := l.Accept()
		require.NoError(t, err)
		taken.Close()
	}
}
