//go:build unix

package tree

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A process that has dialled its parent ends once the parent has read its last words.
func TestGoodbye(t *testing.T) {
	down, up := connected(t, transport.Options{}, transport.Options{})
	c := &Child{link: link{conn: down}}
	p := &Parent{conn: up, dialled: true, bye: make(chan struct{}), node: new(Node)}
	go p.Next(false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Send(t.Context(), wire.MustPack(wire.KindDone, wire.Done{})...)
		p.Goodbye(t.Context())
	}()
	readOne(t, c)
	select {
	case <-ended:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	readOne(t, c)
	<-ended
	require.True(t, c.Exit().Returned)

	// It waits neither for ever nor for a parent that is gone.
	p.bye, p.node = make(chan struct{}), new(Node)
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p.Goodbye(brief)
	p.node = new(Node)
	c.conn.Close()
	p.Goodbye(t.Context())
}

// What a process has said along the tree arrives although it ends at once.
func TestGoodbyeAlongTheTree(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", nowhere, nowhere, nowhere})
	conn, err := m[1].Dial(t.Context(), m[3].endpoint)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Send(t.Context(), []byte("hello")))
	other := <-m[3].accepted
	last := bytes.Repeat([]byte{7}, 32<<10)
	go func() {
		other.Send(t.Context(), last)
		other.Close()
		m[3].Parent.Goodbye(t.Context())
		m[3].Parent.conn.Close()
	}()
	frames, err := conn.Recv()
	require.NoError(t, err)
	require.True(t, len(frames) == 1 && bytes.Equal(frames[0], last), "the same message")
}

// What came before an end takes no more is passed on.
func TestLastWordsOfAnEndThatTakesNoMore(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	ending, err := l.Accept()
	require.NoError(t, err)
	here, in := net.Pipe()
	spliced := make(chan struct{})
	go func() {
		defer close(spliced)
		new(Node).splice(in, out)
	}()
	last := bytes.Repeat([]byte{7}, 100_000)
	_, err = ending.Write(last)
	require.NoError(t, err)
	ending.Close()
	for range 100 { // the first is answered by a reset
		here.Write([]byte("x"))
	}
	heard, err := io.ReadAll(here)
	require.NoError(t, err)
	require.Len(t, heard, len(last))
	<-spliced
}

func readOne(t *testing.T, c *Child) {
	t.Helper()
	frames, err := c.conn.Recv()
	if err == nil {
		err = c.handle(frames)
	}
	require.NoError(t, err)
}
