//go:build unix

package ring

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A rank does not wait for ever for a neighbour that lives and does not connect.
func TestANeighbourThatDoesNotConnect(t *testing.T) {
	t.Parallel()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	listen := func() (*transport.Listener, error) {
		return transport.ListenUnix(t.TempDir(), credentials, transport.Options{})
	}
	other, err := listen() // which accepts nothing
	require.NoError(t, err)
	defer other.Close()
	n := New(Options{Size: 2, Patience: 100 * time.Millisecond, Listen: listen, Post: func(...[]byte) error { return nil },
		Dial: func(_ context.Context, endpoint string) (*transport.Conn, error) { // however long it takes
			return transport.Dial(t.Context(), endpoint, credentials, transport.Options{})
		}, Failed: func(error) {}})
	n.Meet([]wire.Member{{Rank: 0}, {Rank: 1, Endpoint: other.Endpoint()}})
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = n.Join(late)
	require.ErrorContains(t, err, "waiting for rank 1: context deadline exceeded")
	require.NoError(t, late.Err())
	n.Fail(ErrClosed)
	n.Close()
}

// Nor for one that connects, and does not say which rank it is.
func TestANeighbourThatSaysNothing(t *testing.T) {
	t.Parallel()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	listen := func() (*transport.Listener, error) {
		return transport.ListenUnix(t.TempDir(), credentials, transport.Options{})
	}
	other, err := listen()
	require.NoError(t, err)
	defer other.Close()
	silent := make(chan *transport.Conn, 1)
	n := New(Options{Size: 2, Patience: 100 * time.Millisecond, Listen: listen,
		Post: func(frames ...[]byte) error { // its member
			var me wire.Member
			if err := wire.Unpack(frames, &me); err != nil {
				return err
			}
			c, err := transport.Dial(t.Context(), me.Endpoint, credentials, transport.Options{})
			silent <- c
			return err
		},
		Dial: func(_ context.Context, endpoint string) (*transport.Conn, error) {
			return transport.Dial(t.Context(), endpoint, credentials, transport.Options{})
		}, Failed: func(error) {}})
	n.Meet([]wire.Member{{Rank: 0}, {Rank: 1, Endpoint: other.Endpoint()}})
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = n.Join(late)
	require.ErrorContains(t, err, "waiting for rank 1: context deadline exceeded")
	require.NoError(t, late.Err())
	(<-silent).Close()
	n.Fail(ErrClosed)
	n.Close()
}
