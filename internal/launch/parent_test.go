//go:build unix

package launch

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// dialled is a parent at an address, as a child sees it. Only the first try has a
// time limit: the parent may be there at the second one, and this machine busy.
func dialled(t *testing.T, address string, credentials *transport.Credentials, answer time.Duration, tried func()) error {
	t.Helper()
	tries := 0
	conn, err := keepDialling(2*time.Second, answer, func(limit time.Duration) (*transport.Conn, error) {
		defer tried()
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

// Where both ends share a processor with many others the parent may take long
// to answer. That is no reason to say that it cannot be reached.
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

// passOn has what comes in go to an address.
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
