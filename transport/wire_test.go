package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

const (
	more    = 1
	command = 4
)

// greeting opens a ZMTP 3.0 stream with NULL security.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

func frame(flags byte, body []byte) []byte {
	if len(body) > 255 {
		f := binary.BigEndian.AppendUint64([]byte{flags | 2}, uint64(len(body)))
		return append(f, body...)
	}
	return append([]byte{flags, byte(len(body))}, body...)
}

func cmd(name, body string) []byte {
	return frame(command, []byte(string(rune(len(name)))+name+body))
}

func ready() []byte {
	return cmd("READY", "\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00")
}

// peer is the far end of a connection, spoken by hand.
type peer struct {
	net.Conn
	t testing.TB
}

// readFrame reads one frame.
func (p peer) readFrame() (flags byte, body []byte) {
	p.t.Helper()
	flags, body, err := readFrame(p.Conn)
	require.NoError(p.t, err)
	return flags, body
}

func readFrame(r io.Reader) (flags byte, body []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(r, head[:2]); err != nil {
		return
	}
	size := uint64(head[1])
	if head[0]&2 != 0 {
		if _, err = io.ReadFull(r, head[2:]); err != nil {
			return
		}
		size = binary.BigEndian.Uint64(head[1:])
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return head[0], body, err
}

// byHand opens a connection whose far end is spoken by hand, on nc or a unix socket.
func byHand(t testing.TB, opts transport.Options, nc ...net.Conn) (*transport.Conn, peer) {
	t.Helper()
	if nc == nil {
		a, b := unixPair(t)
		nc = []net.Conn{a, b}
	}
	p := peer{nc[1], t}
	shaken := make(chan struct{})
	go func() {
		defer close(shaken)
		_, err := p.Write(append(greeting(), ready()...))
		assert.NoError(t, err)
		_, err = io.ReadFull(p, make([]byte, 64))
		assert.NoError(t, err)
		flags, body, err := readFrame(p)
		assert.NoError(t, err)
		assert.EqualValues(t, command, flags)
		assert.True(t, bytes.HasPrefix(body, []byte("\x05READY")))
	}()
	c, err := transport.Open(nc[0], true, opts)
	require.NoError(t, err)
	<-shaken
	t.Cleanup(func() {
		c.Close()
		p.Close()
	})
	return c, p
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileFrames(t *testing.T) { // not parallel: it measures memory
	huge := func(size uint64) []byte { return binary.BigEndian.AppendUint64([]byte{2}, size) }
	for name, c := range map[string]struct {
		bytes []byte
		check func(*testing.T, error)
	}{
		"2^62 bytes":         {huge(1 << 62), isSize(false)},
		"2^63 bytes":         {huge(1 << 63), isSize(false)},
		"2^64-1 bytes":       {huge(1<<64 - 1), isSize(false)},
		"the sum":            {append(frame(more, make([]byte, 1<<20)), huge(1<<20)...), isSize(false)},
		"endless frames":     {bytes.Repeat(frame(more, nil), 600), isSize(true)},
		"flags":              {[]byte{8, 0}, is(transport.ErrProtocol)},
		"a large command":    {frame(command, make([]byte, 5000)), is(transport.ErrProtocol)},
		"a command of 2^62":  {binary.BigEndian.AppendUint64([]byte{6}, 1<<62), is(transport.ErrProtocol)},
		"a command in parts": {frame(command|more, []byte("\x04PING")), is(transport.ErrProtocol)},
		"an empty command":   {frame(command, nil), is(transport.ErrProtocol)},
		"a name cut short":   {frame(command, []byte("\x09PING")), is(transport.ErrProtocol)},
		"a PING cut short":   {cmd("PING", "\x00"), is(transport.ErrProtocol)},
		"a long PING":        {cmd("PING", strings.Repeat("x", 19)), is(transport.ErrProtocol)},
		"half a header":      {[]byte{2, 0, 0}, is(io.ErrUnexpectedEOF)},
		"one byte":           {[]byte{0}, is(io.ErrUnexpectedEOF)},
		"half a body":        {[]byte{0, 5, 'a'}, is(io.ErrUnexpectedEOF)},
		"half a message":     {frame(more, []byte("a")), is(io.ErrUnexpectedEOF)},
		"half a command":     {[]byte{4, 9, 4, 'P'}, is(io.ErrUnexpectedEOF)},
		"nothing":            {nil, is(io.EOF)},
	} {
		t.Run(name, func(t *testing.T) {
			conn, p := byHand(t, transport.Options{MaxMessage: 1<<20 + 1<<19})
			go func() {
				_, _ = p.Write(c.bytes)
				_ = p.Close()
			}()
			var err error
			memory := allocated(func() { _, err = conn.Recv() })
			c.check(t, err)
			assert.Less(t, memory, uint64(4<<20))
			<-conn.Done()
			require.Error(t, conn.Post(nil))
		})
	}
}

func is(target error) func(*testing.T, error) {
	return func(t *testing.T, err error) { require.ErrorIs(t, err, target) }
}

func isSize(frames bool) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		var size *transport.SizeError
		require.ErrorAs(t, err, &size)
		require.Equal(t, frames, size.Frames)
		require.Greater(t, size.Size, size.Limit)
	}
}

func TestHostileHandshakes(t *testing.T) {
	t.Parallel()
	hello := func(b ...byte) []byte { return append(greeting(), b...) }
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"HTTP":               []byte("GET / HTTP/1.1\r\nHost: " + strings.Repeat("x", 100) + "\r\n\r\n"),
		"half a greeting":    greeting()[:30],
		"a greeting alone":   greeting(),
		"metadata cut short": hello(cmd("READY", "\x0bSocket-Type\x00")...),
		"a lying length":     hello(cmd("READY", "\xff")...),
		"no metadata":        hello(cmd("READY", "")...),
		"another command":    hello(cmd("HELLO", "")...),
		"an ERROR":           hello(cmd("ERROR", "\x03bad")...),
		"no command":         hello(frame(0, []byte("x"))...),
		"a large READY":      hello(frame(command, make([]byte, 5000))...),
		"a READY of 2^62":    hello(binary.BigEndian.AppendUint64([]byte{6}, 1<<62)...),
		"a READY in parts":   hello(bytes.Repeat(frame(command|more, []byte("\x05READY")), 9)...),
		"a REQ":              hello(cmd("READY", "\x0bSocket-Type\x00\x00\x00\x03SUB")...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, p := unixPair(t)
			go func() {
				_, _ = p.Write(b)
				_, _ = io.Copy(io.Discard, io.LimitReader(p, 64))
				_ = p.(*net.UnixConn).CloseWrite()
				_, _ = io.Copy(io.Discard, p)
				_ = p.Close()
			}()
			c, err := transport.Open(a, true, transport.Options{})
			require.Nil(t, c)
			require.Error(t, err)
			_, err = a.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

func TestPingIsAnsweredWithItsContext(t *testing.T) {
	t.Parallel()
	c, p := byHand(t, transport.Options{HeartbeatInterval: -1})
	received := make(chan [][]byte, 10)
	go func() {
		defer close(received)
		for {
			m, err := c.Recv()
			if err != nil {
				return
			}
			received <- m
		}
	}()
	// Large messages leave while the pings come in, between the frames of a message.
	const messages = 20
	large := bytes.Repeat([]byte("large"), 1<<18)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range messages {
			assert.NoError(t, c.Send(context.Background(), []byte("head"), large))
		}
	}()
	_, err := p.Write(frame(more, []byte("one")))
	require.NoError(t, err)
	for _, b := range [][]byte{cmd("PING", "\x00\x64context"), cmd("PING", "\x00\x00"),
		cmd("PONG", "whatever"), cmd("SUBSCRIBE", "topic"), cmd("PING", "\x00\x000123456789abcdef"), frame(0, []byte("two"))} {
		_, err := p.Write(b)
		require.NoError(t, err)
	}
	var pongs []string
	for bodies := 0; bodies < messages || len(pongs) < 3; {
		switch flags, body := p.readFrame(); {
		case flags == command:
			require.True(t, bytes.HasPrefix(body, []byte("\x04PONG")))
			pongs = append(pongs, string(body[5:]))
		case flags&more != 0:
			require.Equal(t, "head", string(body))
		default:
			bodies++
			require.True(t, bytes.Equal(large, body))
		}
	}
	assert.Equal(t, []string{"context", "", "0123456789abcdef"}, pongs)
	assert.Equal(t, [][]byte{[]byte("one"), []byte("two")}, <-received)
	<-sent // whose last Send may still be on its way back from the socket
	_ = p.Close()
	_, ok := <-received
	assert.False(t, ok)
}

func TestPingsThatNobodyReadsTheAnswersOf(t *testing.T) { // not parallel: it measures memory
	c, p := byHand(t, transport.Options{HeartbeatInterval: -1})
	go func() {
		pings := bytes.Repeat(cmd("PING", "\x00\x000123456789abcdef"), 1000)
		for range 1000 {
			if _, err := p.Write(pings); err != nil {
				t.Error(err)
			}
		}
		_, _ = p.Write(frame(0, []byte("done")))
	}()
	m, err := c.Recv()
	require.NoError(t, err)
	require.Equal(t, "done", string(m[0]))
	var heap runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&heap)
	assert.Less(t, heap.HeapAlloc, uint64(32<<20))
}

func TestOpenDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			defer b.Close()
			_, err := transport.Open(a, true, transport.Options{HandshakeTimeout: 20_000_000})
			var late net.Error
			require.True(t, errors.As(err, &late) && late.Timeout(), "%v", err)
		})
	}
}
