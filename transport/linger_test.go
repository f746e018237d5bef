package transport_test

import (
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// lingering returns two ends that wait in the kernel, one of which echoes
// messages.
func lingering(t *testing.T) (a *transport.Conn, echo *transport.Conn) {
	a, echo = pair(t, transport.Options{HeartbeatInterval: -1})
	go func() {
		for {
			echo.Linger()
			frames, err := echo.Recv()
			if err != nil {
				return
			}
			echo.Post(frames...)
		}
	}()
	return a, echo
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(files)
}

// roundTrips sends n numbered messages, one after another.
func roundTrips(t *testing.T, a *transport.Conn, n int, extra ...[]byte) {
	t.Helper()
	for i := range n {
		number := binary.BigEndian.AppendUint64(nil, uint64(i))
		require.NoError(t, a.Post(append([][]byte{number}, extra...)...))
		a.Linger()
		frames, err := a.Recv()
		require.NoError(t, err)
		require.Equal(t, number, frames[0])
		require.Equal(t, extra, append([][]byte(nil), frames[1:]...))
	}
}

func TestLinger(t *testing.T) {
	a, _ := lingering(t)
	before := descriptors(t)
	roundTrips(t, a, 2000)
	for range 3 { // each pause is longer than a reader waits in the kernel
		time.Sleep(30 * time.Millisecond)
		roundTrips(t, a, 20)
	}
	for i := range 20 { // no longer than now and then
		number := []byte{byte(i)}
		require.NoError(t, a.Post(number))
		frames, err := a.Recv()
		require.NoError(t, err)
		require.Equal(t, number, frames[0])
	}
	roundTrips(t, a, 20)
	require.LessOrEqual(t, descriptors(t), before, "each end has one descriptor")
}

// Bytes that do not fit into the socket at once leave while its reader lingers.
func TestLingerLargeMessages(t *testing.T) {
	t.Parallel()
	a, _ := lingering(t)
	roundTrips(t, a, 100)
	large := make([]byte, 8<<20)
	for range 5 {
		roundTrips(t, a, 2, large)
		roundTrips(t, a, 10)
	}
}

// A writer that finds the socket full waits, however long the peer takes to
// read on.
func TestLingerFullSocket(t *testing.T) {
	t.Parallel()
	a, b := pair(t, transport.Options{HeartbeatInterval: -1})
	for range 100 {
		require.NoError(t, b.Post([]byte("x")))
		a.Linger()
		_, err := a.Recv()
		require.NoError(t, err)
	}
	received := make(chan error, 1)
	go func() { a.Linger(); _, err := a.Recv(); received <- err }()
	sent := make(chan error, 1)
	go func() { sent <- a.Send(context.Background(), make([]byte, 8<<20)) }()
	select {
	case err := <-sent:
		t.Fatal("the peer did not read", err)
	case <-time.After(50 * time.Millisecond):
	}
	frames, err := b.Recv()
	require.NoError(t, err)
	require.Len(t, frames[0], 8<<20)
	require.NoError(t, <-sent)
	require.NoError(t, b.Post([]byte("y")))
	require.NoError(t, <-received)
}

func TestCloseWhileLingering(t *testing.T) {
	t.Parallel()
	for _, end := range []func(a, b *transport.Conn){
		func(a, _ *transport.Conn) { a.Close() },
		func(_, b *transport.Conn) { b.Close() },
	} {
		a, b := lingering(t)
		roundTrips(t, a, 200)
		waiting := make(chan error, 1)
		go func() { a.Linger(); _, err := a.Recv(); waiting <- err }()
		end(a, b)
		select {
		case err := <-waiting:
			require.Error(t, err)
		case <-time.After(time.Minute):
			t.Fatal("it still waits")
		}
	}
}

// Any number of connections may ask to linger; few do, and none suffers.
func TestManyLinger(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	const n = 20
	for range n {
		a, _ := lingering(t)
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 200 {
				if a.Post(binary.BigEndian.AppendUint64(nil, uint64(i))) != nil {
					t.Error("it cannot be sent")
				}
				a.Linger()
				if frames, err := a.Recv(); err != nil || binary.BigEndian.Uint64(frames[0]) != uint64(i) {
					t.Error(i, err)
				}
			}
		}()
	}
	for range n {
		<-done
	}
}

// A heartbeat is nothing to receive: who waits for a message must be able to give
// up when only heartbeats come.
func TestAwaitPassesOverHeartbeats(t *testing.T) {
	a, b := pair(t, transport.Options{HeartbeatInterval: 2 * time.Millisecond, HeartbeatTimeout: time.Hour})
	for range 50 {
		require.NoError(t, b.Post([]byte("soon")))
		a.Linger()
		_, err := a.Recv()
		require.NoError(t, err)
	}
	for range 50 {
		require.False(t, a.Linger(), "there is no message")
	}
	require.NoError(t, b.Post([]byte("late")))
	frames, err := a.Recv()
	require.NoError(t, err)
	require.Equal(t, "late", string(frames[0]))
}
