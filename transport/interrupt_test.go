package transport_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// Interrupt ends only a Recv that waits between two messages.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	opened := make(chan *transport.Conn, 1)
	go func() {
		c, err := transport.Open(far, false, transport.Options{HeartbeatInterval: -1})
		if err != nil {
			close(opened)
			return
		}
		opened <- c
	}()
	a, err := transport.Open(near, true, transport.Options{HeartbeatInterval: -1})
	require.NoError(t, err)
	defer a.Close()
	b := <-opened
	require.NotNil(t, b)
	defer b.Close()

	for range 3 {
		waiting := make(chan error, 1)
		go func() {
			_, err := a.Recv()
			waiting <- err
		}()
		a.Interrupt()
		select {
		case err := <-waiting:
			require.ErrorIs(t, err, transport.ErrInterrupted)
		case <-time.After(time.Minute):
			t.Fatal("Recv still waits")
		}
		require.NoError(t, a.Err())
		require.NoError(t, b.Post([]byte("still"), []byte("there")))
		frames, err := a.Recv()
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("still"), []byte("there")}, frames)
	}
}
