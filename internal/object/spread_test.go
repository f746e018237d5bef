package object_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/object"
)

// source is a process that says that it passes a value on. It is told of each request.
type source struct{ asked func(r *object.Request) }

func (s source) Serve(r *object.Request)  { s.asked(r) }
func (source) GiveUp(r *object.Request)   { r.Fail(object.GivenUp, "") }
func (source) Left(*object.Session, bool) {}
func (source) Drop()                      {}

// network has processes reach each other over the network.
type network struct{ backend.Backend }

func (network) Network(context.Context) (backend.Network, error) {
	return backend.Network{Host: "127.0.0.1", Bind: "127.0.0.1"}, nil
}

// inPieces has the root keep a value that goes in pieces.
func inPieces(t *testing.T, f *family) (ref object.Ref, value []byte) {
	value = make([]byte, 1_000_000)
	_, err := rand.Read(value)
	require.NoError(t, err)
	frames := [][]byte{value[:10], {}, value[10:500_000], value[500_000:]}
	ref, err = f.root.Keep(t.Context(), frames)
	require.NoError(t, err)
	f.root.Hold(ref)
	return ref, value
}

// gets has a process get the value.
func gets(ctx context.Context, s *object.Server, ref object.Ref, want []byte) error {
	c, err := s.Fetch(ctx, ref)
	if err != nil {
		return err
	}
	var got []byte
	for _, f := range c.Frames {
		got = append(got, f...)
	}
	if string(got) != string(want) {
		return fmt.Errorf("another value, of %d bytes", len(got))
	}
	return nil
}

// A source that sends something else, or ends, is replaced by another one, at last by the home.
func TestSourcesThatFail(t *testing.T) {
	f := newFamilyOn(t, network{local.New()})
	ref, value := inPieces(t, f)
	dies := f.child(t, "Dies")
	var mu sync.Mutex
	seen := map[string]bool{}
	asked := func(who string) {
		mu.Lock()
		defer mu.Unlock()
		seen[who] = true
	}
	require.NoError(t, object.Join(t.Context(), f.child(t, "Spoils"), ref, source{func(r *object.Request) {
		asked("spoils")
		object.Asked[object.Value]{Request: r}.Reply(object.Encoded([][]byte{value[:100]}))
	}}))
	require.NoError(t, object.Join(t.Context(), dies, ref, source{func(*object.Request) {
		asked("dies")
		go dies.Close()
	}}))
	require.NoError(t, gets(t.Context(), f.child(t, "Taker"), ref, value))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]bool{"spoils": true, "dies": true}, seen)
}

// Who gives a Get up passes nothing on; who waited for its pieces gets them elsewhere.
func TestGetsThatAreGivenUp(t *testing.T) {
	f := newFamilyOn(t, network{local.New()})
	ref, value := inPieces(t, f)
	silent := []*object.Server{f.child(t, "Silent1"), f.child(t, "Silent2")}
	for _, s := range silent {
		require.NoError(t, object.Join(t.Context(), s, ref, source{func(*object.Request) {}}))
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	results := make(chan error, 5)
	for i := range 5 { // two get it from each silent one, and the last from the first
		ctx := ctx
		if i > 0 {
			ctx = t.Context()
		}
		s := f.child(t, fmt.Sprint("Taker", i))
		go func() { results <- gets(ctx, s, ref, value) }()
		require.Eventually(t, func() bool { return f.root.Members(ref) == 2+i+1 }, time.Minute, time.Millisecond)
	}
	giveUp()
	require.ErrorIs(t, <-results, context.Canceled)
	for _, s := range silent {
		s.Close()
	}
	for range 4 {
		require.NoError(t, <-results)
	}
}
