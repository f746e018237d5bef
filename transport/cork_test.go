package transport_test

import (
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// counted counts the system calls that write.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TLS makes records of 16 KiB, and two of a header and what follows it. There
// are fewer system calls than records.
func TestTLSMakesFewSystemCalls(t *testing.T) {
	t.Parallel()
	cred := credentials(t)
	l, err := transport.ListenTLS("127.0.0.1:0", cred, transport.Options{})
	l = closed(t, l, err)
	nc, err := net.Dial("tcp", strings.TrimPrefix(l.Endpoint(), "tls:"))
	require.NoError(t, err)
	c := &counted{Conn: nc}
	here, err := transport.Over(t.Context(), c, cred, transport.Options{})
	require.NoError(t, err)
	defer here.Close()
	there, err := l.Accept()
	require.NoError(t, err)
	defer there.Close()

	for _, test := range []struct {
		size   int
		writes int64
	}{{4 << 20, 4<<20/(48<<10) + 2}, {8 << 10, 1}} {
		before := c.writes.Load()
		sent := bytes.Repeat([]byte("x"), test.size)
		require.NoError(t, here.Post([]byte("header"), sent))
		got, err := there.Recv()
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got[1]))
		require.LessOrEqual(t, c.writes.Load()-before, test.writes)
	}
}
