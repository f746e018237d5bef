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

// A rank does not wait for ever for a neighbour that lives and does not connect, or connects and says nothing.
func TestANeighbourThatDoesNotConnect(t *testing.T) {
	t.Parallel()
	for name, connects := range map[string]bool{"does not connect": false, "says nothing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			credentials, err := transport.NewCredentials()
			require.NoError(t, err)
			listen := func(context.Context) (*transport.Listener, error) {
				return transport.ListenUnix(t.TempDir(), credentials, transport.Options{})
			}
			other, err := listen(t.Context()) // which accepts nothing
			require.NoError(t, err)
			defer other.Close()
			n := New(Options{Size: 2, Patience: 100 * time.Millisecond, Listen: listen, Failed: func(error) {},
				Dial: func(_ context.Context, endpoint string) (*transport.Conn, error) { // however long it takes
					return transport.Dial(t.Context(), endpoint, credentials, transport.Options{})
				},
				Post: func(frames ...[]byte) error {
					var me wire.Member
					if err := wire.Unpack(frames, &me); err != nil || !connects {
						return err
					}
					silent, err := transport.Dial(t.Context(), me.Endpoint, credentials, transport.Options{})
					if err == nil {
						t.Cleanup(func() { silent.Close() })
					}
					return err
				}})
			n.Meet([]wire.Member{{Rank: 0}, {Rank: 1, Endpoint: other.Endpoint()}})
			late, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			joined := make(chan error, 1)
			go func() { joined <- n.Join(late) }()
			select {
			case err := <-joined:
				require.ErrorContains(t, err, "waiting for rank 1: context deadline exceeded")
				require.NoError(t, late.Err())
			case <-time.After(2 * time.Minute):
				require.Fail(t, "Join does not return")
			}
			n.Fail(ErrClosed)
			n.Close()
		})
	}
}
