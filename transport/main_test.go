package transport_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unixPair returns two connected unix sockets.
func unixPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "transport")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	return connect(t, l)
}

// tcpPair returns two connected TCP sockets.
func tcpPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return connect(t, l)
}

func connect(t testing.TB, l net.Listener) (net.Conn, net.Conn) {
	t.Helper()
	defer l.Close()
	a, err := net.Dial(l.Addr().Network(), l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	return a, b
}

// open opens both ends and closes them when the test ends.
func open(t testing.TB, a, b net.Conn, opts transport.Options) (*transport.Conn, *transport.Conn) {
	t.Helper()
	type result struct {
		c   *transport.Conn
		err error
	}
	server := make(chan result, 1)
	go func() {
		c, err := transport.Open(b, true, opts)
		server <- result{c, err}
	}()
	client, err := transport.Open(a, false, opts)
	other := <-server
	require.NoError(t, err)
	require.NoError(t, other.err)
	t.Cleanup(func() {
		client.Close()
		other.c.Close()
	})
	return client, other.c
}

func pair(t testing.TB, opts transport.Options) (*transport.Conn, *transport.Conn) {
	a, b := unixPair(t)
	return open(t, a, b, opts)
}
