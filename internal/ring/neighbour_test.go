package ring

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Many small messages may wait. They come in order, and before the errors of a
// context that has ended, a ring that has failed, and a neighbour that has gone.
func TestManySmallMessagesWait(t *testing.T) {
	n := New(Options{Size: 2})
	b := n.Right
	n.talking.Add(1)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	const many = 100_000
	for i := range many {
		require.NoError(t, b.put(soon, [][]byte{binary.AppendVarint(nil, int64(i))}))
	}
	b.ended(&lostError{returned: true})
	cancel()
	n.end(ErrClosed)
	for i := range many {
		value, err := b.Recv(soon)
		require.NoError(t, err)
		got, _ := binary.Varint(value[0])
		require.EqualValues(t, i, got)
	}
	_, err := b.Recv(soon)
	require.ErrorIs(t, err, ErrClosed)
	require.True(t, b.room.TryAcquire(ahead), "all room is free again")
}

// All callers that wait get a message, or learn that no more come.
func TestManyReceivers(t *testing.T) {
	n := New(Options{Size: 2})
	b := n.Right
	n.talking.Add(1)
	const many = 100
	got := make(chan error, 2*many)
	for range 2 * many {
		go func() {
			_, err := b.Recv(t.Context())
			got <- err
		}()
	}
	for range many {
		require.NoError(t, b.put(t.Context(), [][]byte{{}}))
	}
	for range many {
		require.NoError(t, <-got)
	}
	b.ended(&lostError{returned: true})
	for range many {
		require.ErrorContains(t, <-got, "has returned")
	}
}
