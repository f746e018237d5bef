package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// The end of a context ends a Send of which a part has left, whose memory is then
// the caller's again. The message arrives whole, and so does the next one.
func TestSendThatHasBegunIsLeft(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for !sendIsLeft(t, dial) { // until it had begun
			}
		})
	}
}

// sendIsLeft leaves a Send, and reports whether a part of it had left by then.
func sendIsLeft(t *testing.T, dial func(testing.TB) (net.Conn, net.Conn)) (begun bool) {
	a, b := dial(t)
	one, two := open(t, a, b, transport.Options{MaxQueue: 200 << 20})
	const size = 16 << 20
	body, head := bytes.Repeat([]byte("x"), size), bytes.Repeat([]byte("y"), 5000)
	ctx, cancel := context.WithCancel(t.Context())
	sent, before := make(chan error, 1), one.Mark()
	go func() { sent <- one.Send(ctx, head, body) }()
	for one.Mark() == before { // until it is queued, and so begins to leave
		runtime.Gosched()
	}
	cancel()
	err := <-sent
	require.ErrorIs(t, err, context.Canceled)
	begun = errors.Is(err, transport.ErrUnknownOutcome)
	clear(head)
	clear(body)
	require.Equal(t, context.Canceled, one.Send(ctx, []byte("never")), "it has not begun")
	require.NoError(t, one.Post([]byte("after")))
	if begun {
		m, err := two.Recv()
		require.NoError(t, err)
		require.Len(t, m, 2)
		assert.Equal(t, 5000, bytes.Count(m[0], []byte("y")))
		assert.Equal(t, size, bytes.Count(m[1], []byte("x")))
	}
	m, err := two.Recv()
	require.NoError(t, err)
	assert.Equal(t, "after", string(m[0]))
	return begun
}

// The end of a context ends the reading of a message at any byte of it, and the
// next Recv returns the message.
func TestRecvIsLeftAtAnyByte(t *testing.T) {
	t.Parallel()
	long := make([]byte, 9, 9+6000)
	long[0] = 2 // a frame with a size of eight bytes
	binary.BigEndian.PutUint64(long[1:], 6000)
	long = append(long, bytes.Repeat([]byte("l"), 6000)...)
	ping := append([]byte{4, 7, 4}, "PING\x00\x00"...)
	stream := append(append([]byte("\x01\x03abc"), ping...), long...)
	cuts := []int{len(stream) - 1, len(stream) - 4500}
	for cut := range len(stream) - 5990 {
		cuts = append(cuts, cut)
	}
	for name, dial := range sockets {
		for _, linger := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a, b := dial(t)
				_, two := open(t, a, b, transport.Options{HeartbeatInterval: -1})
				parts := make(chan []byte, 2)
				defer close(parts)
				go func() {
					for p := range parts {
						a.Write(p) // a pipe's waits for the reader
					}
				}()
				for _, cut := range cuts {
					parts <- stream[:cut]
					if linger {
						two.Linger()
					}
					ctx, cancel := context.WithCancel(t.Context())
					left := make(chan error, 1)
					go func() {
						_, err := two.RecvContext(ctx)
						left <- err
					}()
					cancel()
					require.Equal(t, context.Canceled, <-left, "at byte %d", cut)
					_, err := two.RecvContext(ctx) // again, with a context that has ended before
					require.Equal(t, context.Canceled, err)
					parts <- stream[cut:]
					m, err := two.Recv()
					require.NoError(t, err, "at byte %d", cut)
					require.Len(t, m, 2)
					require.Equal(t, "abc", string(m[0]))
					require.Equal(t, 6000, bytes.Count(m[1], []byte("l")))
				}
			})
		}
	}
}
