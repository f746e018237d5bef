package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// python is Debian's interpreter, for which python3-zmq brings libzmq itself.
const python = "/usr/bin/python3"

// echo is a libzmq peer: it sends every message back, and after "bye" leaves at the end of its input. If it left earlier with
// heartbeats unread, its kernel might drop what the other end has not received yet.
const echo = `
import sys, zmq
kind, how, endpoint = sys.argv[1:]
s = zmq.Context().socket(getattr(zmq, kind))
s.setsockopt(zmq.HEARTBEAT_IVL, 20)
s.setsockopt(zmq.HEARTBEAT_TIMEOUT, 20000)
s.setsockopt(zmq.HEARTBEAT_TTL, 60000)
s.setsockopt(zmq.LINGER, 10000)
s.setsockopt(zmq.SNDHWM, 0) # a ROUTER drops what is beyond
s.setsockopt(zmq.RCVHWM, 0)
getattr(s, how)(endpoint)
print(s.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)
while True:
    m = s.recv_multipart()
    s.send_multipart(m)
    if m[-1] == b"bye":
        break
sys.stdin.read()
s.close()
zmq.Context.instance().term()
`

func needZMQ(t *testing.T) {
	t.Helper()
	if err := exec.Command(python, "-c", "import zmq").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has to have python3-zmq")
		}
		t.Skip("no python3-zmq: nothing to interoperate with")
	}
}

// libzmq starts the peer and returns the endpoint that it prints.
func libzmq(t *testing.T, kind, how, endpoint string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, python, "-c", echo, kind, how, endpoint)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		defer cancel()
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimRight(line, "\x00\n")
}

func TestLibzmq(t *testing.T) {
	t.Parallel()
	needZMQ(t)
	for kind, own := range map[string]string{"DEALER": "", "ROUTER": "DEALER", "PAIR": "PAIR"} {
		for _, how := range []string{"bind", "connect"} {
			for _, network := range []string{"tcp", "unix"} {
				t.Run(kind+"/"+how+"/"+network, func(t *testing.T) {
					t.Parallel()
					c := meet(t, kind, how, network, transport.Options{SocketType: own, HeartbeatInterval: 20 * time.Millisecond})
					defer c.Close()
					talk(t, c)
				})
			}
		}
	}
}

// meet connects to a libzmq peer, or lets it connect.
func meet(t *testing.T, kind, how, network string, opts transport.Options) *transport.Conn {
	dir, err := os.MkdirTemp("", "transport")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	scheme, address := "tcp://", "127.0.0.1:0"
	if network == "unix" {
		scheme, address = "ipc://", filepath.Join(dir, "s")
	}
	var nc net.Conn
	if how == "bind" {
		if network == "tcp" {
			address = "127.0.0.1:*"
		}
		endpoint := libzmq(t, kind, how, scheme+address)
		nc, err = net.Dial(network, strings.TrimPrefix(endpoint, scheme))
	} else {
		var l net.Listener
		l, err = net.Listen(network, address)
		require.NoError(t, err)
		defer l.Close()
		libzmq(t, kind, how, scheme+l.Addr().String())
		nc, err = l.Accept()
	}
	require.NoError(t, err)
	c, err := transport.Open(nc, how == "connect", opts)
	require.NoError(t, err)
	return c
}

func talk(t *testing.T, c *transport.Conn) {
	for _, m := range [][][]byte{
		{[]byte("hello")},
		{nil},
		{[]byte("a"), nil, bytes.Repeat([]byte("b"), 255), bytes.Repeat([]byte("c"), 256)},
		{bytes.Repeat([]byte("large"), 4<<20), []byte("tail")},
	} {
		require.NoError(t, c.Send(t.Context(), m...))
		got, err := c.Recv()
		require.NoError(t, err)
		require.Len(t, got, len(m))
		for i := range m {
			require.True(t, bytes.Equal(m[i], got[i]))
		}
	}
	// Many in flight, then some beats with nothing but heartbeats both ways.
	const n = 1000
	go func() {
		for i := range n {
			assert.NoError(t, c.Post([]byte{byte(i)}, bytes.Repeat([]byte{byte(i)}, i)))
		}
	}()
	for i := range n {
		got, err := c.Recv()
		require.NoError(t, err)
		require.Equal(t, byte(i), got[0][0])
		require.Len(t, got[1], i)
	}
	bye := time.AfterFunc(300*time.Millisecond, func() { assert.NoError(t, c.Post([]byte("bye"))) })
	defer bye.Stop()
	got, err := c.Recv()
	require.NoError(t, err)
	require.Equal(t, "bye", string(got[0]))
}
