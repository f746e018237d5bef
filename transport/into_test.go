package transport_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

func TestRecvInto(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{})
			sizes := []int{0, 1, 255, 256, 4095, 4096, 4097, 70_000, 3 << 20}
			go func() {
				for _, size := range sizes {
					one.Send(t.Context(), bytes.Repeat([]byte{'x'}, size))
					one.Send(t.Context(), []byte("between"), []byte{byte(size)})
				}
			}()
			buf := make([]byte, 3<<20)
			for _, size := range sizes {
				clear(buf)
				n, err := two.RecvInto(buf[:size])
				require.NoError(t, err)
				require.Equal(t, size, n)
				require.Equal(t, size, bytes.Count(buf, []byte{'x'}))
				frames, err := two.Recv() // the codec finds itself between two messages
				require.NoError(t, err)
				require.Equal(t, [][]byte{[]byte("between"), {byte(size)}}, frames)
			}
		})
	}
}

// A message takes no memory of its own.
func TestRecvIntoTakesNoMemory(t *testing.T) {
	one, two := pair(t, transport.Options{})
	message, buf := make([]byte, 100_000), make([]byte, 100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50 {
		require.NoError(t, one.Post(message))
		n, err := two.RecvInto(buf)
		require.NoError(t, err)
		require.Equal(t, len(message), n)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "50 messages of 100 kB")
}

func TestRecvIntoOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		frames [][]byte
		frame  bool
	}{
		"too long":   {[][]byte{make([]byte, 11)}, false},
		"two frames": {[][]byte{{1}, {2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := pair(t, transport.Options{})
			require.NoError(t, one.Send(t.Context(), test.frames...))
			_, err := two.RecvInto(make([]byte, 10))
			var size *transport.SizeError
			require.ErrorAs(t, err, &size)
			require.Equal(t, test.frame, size.Frames)
			require.Error(t, two.Err())
			_, again := two.RecvInto(make([]byte, 10))
			require.Error(t, again)
		})
	}
}

func TestRecvIntoAtTheEnd(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{})
	require.NoError(t, one.Send(t.Context(), []byte("last")))
	one.Close()
	buf := make([]byte, 10)
	n, err := two.RecvInto(buf)
	require.NoError(t, err)
	require.Equal(t, "last", string(buf[:n]))
	_, err = two.RecvInto(buf)
	require.Equal(t, io.EOF, err)

	// In the middle of a message.
	a, b := unixPair(t)
	_, three := open(t, &cutting{Conn: a}, b, transport.Options{})
	_, err = a.Write([]byte{0, 100, 'x'})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	_, err = three.RecvInto(make([]byte, 100))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	// Close ends a wait.
	_, five := pair(t, transport.Options{})
	go func() {
		time.Sleep(10 * time.Millisecond)
		five.Close()
	}()
	_, err = five.RecvInto(buf)
	require.Equal(t, transport.ErrClosed, err)
}

// cutting is a socket that the test writes to as well.
type cutting struct{ net.Conn }
