//go:build unix

package tree

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A process that has dialled its parent ends once the parent has read its last words.
func TestGoodbye(t *testing.T) {
	down, up := connected(t, transport.Options{}, transport.Options{})
	c := &Child{conn: down}
	p := &Parent{conn: up, dialled: true, bye: make(chan struct{})}
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
	p.bye = make(chan struct{})
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p.Goodbye(brief)
	c.conn.Close()
	p.Goodbye(t.Context())
}

func readOne(t *testing.T, c *Child) {
	t.Helper()
	_, err := c.readOne(t.Context())
	require.NoError(t, err)
}
