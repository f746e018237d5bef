package launch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A process that has dialled its parent ends when that has read its last words.
func TestGoodbye(t *testing.T) {
	ours, theirs, err := socketPair()
	require.NoError(t, err)
	fd, err := unix.Dup(int(theirs.Fd()))
	require.NoError(t, err)
	theirs.Close()
	nc, err := transport.Inherit(fd)
	require.NoError(t, err)
	down := make(chan *transport.Conn, 1)
	go func() {
		conn, _ := transport.Open(ours, true, transport.Options{})
		down <- conn
	}()
	up, err := transport.Open(nc, false, transport.Options{})
	require.NoError(t, err)
	defer up.Close()
	c := &Child{conn: <-down}
	defer c.conn.Close()

	p := &Parent{conn: up, dialled: true, bye: make(chan struct{})}
	go p.Next(false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Send(t.Context(), wire.MustPack(wire.KindDone, wire.Done{})...)
		p.Goodbye(t.Context())
	}()
	require.NoError(t, c.readOne())
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, c.readOne())
	<-ended
	require.True(t, c.Exit().Returned)

	// It does not wait for ever, nor for a parent that is gone.
	p.bye = make(chan struct{})
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p.Goodbye(brief)
	c.conn.Close()
	p.Goodbye(t.Context())
}
