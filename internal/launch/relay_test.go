//go:build unix

package launch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// askedFor is a process whose requests are answered by serve.
func askedFor(t *testing.T, serve func(wire.Ask) jobAnswer) *Parent {
	t.Helper()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	l, err := transport.ListenTLS("127.0.0.1:0", credentials, transport.Options{})
	require.NoError(t, err)
	defer l.Close()
	conn, err := transport.Dial(t.Context(), l.Endpoint(), credentials, transport.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	above, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { above.Close() })
	go func() {
		for {
			frames, err := above.Recv()
			if err != nil {
				return
			}
			var ask wire.Ask
			assert.NoError(t, wire.Unpack(frames, &ask))
			above.Post(wire.MustPack(wire.KindAnswer, wire.Answer{ID: ask.ID}, mustMarshal(serve(ask))...)...)
		}
	}()
	p := &Parent{conn: conn, answers: map[uint64]chan answer{}, late: map[uint64]struct{}{}}
	go func() {
		_, _, err := p.Next(true)
		assert.Error(t, err, "there are answers only")
	}()
	return p
}

// Events that nobody reads are kept while there is room, and then dropped, oldest first.
func TestEventsThatNobodyReads(t *testing.T) {
	t.Parallel()
	for sent, kept := range map[int]int{1: 1, 7: 7, 8: 8, 9: 8, 40: 8} {
		t.Run(fmt.Sprint(sent), func(t *testing.T) {
			t.Parallel()
			next := 0
			j := &relayedJob{events: make(chan backend.Event, 8), relay: &relay{askedFor(t, func(wire.Ask) jobAnswer {
				if next++; next > sent {
					return jobAnswer{Failure: failureOf(errors.New("it has ended"))}
				}
				return jobAnswer{Event: backend.Event{Kind: backend.Pending, Reason: fmt.Sprint(next)}}
			})}}
			j.hear()
			var got, want []string
			for e := range j.events {
				got = append(got, e.Reason)
			}
			for i := sent - kept + 1; i <= sent; i++ {
				want = append(want, fmt.Sprint(i))
			}
			assert.Equal(t, want, got)
		})
	}
}
