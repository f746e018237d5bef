package object_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/test/objecttest"
	"github.com/fiber-go/fiber/transport"
)

// family is a root, and processes below it whose connections can be cut.
type family struct {
	node  *tree.Node
	root  *object.Server
	cut   atomic.Bool
	dials atomic.Int64
	mu    sync.Mutex
	conns []*transport.Conn
}

func newFamily(t *testing.T) *family { return newFamilyOn(t, local.New()) }

func newFamilyOn(t *testing.T, on backend.Backend) *family {
	dir, err := os.MkdirTemp("", "home") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	n, err := tree.NewRoot(config.Config{RuntimeDir: dir, MaxMessage: 1 << 20, HeartbeatInterval: time.Second,
		HeartbeatTimeout: time.Minute}, on, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	f := &family{node: n, root: object.New(objecttest.Over(n))}
	t.Cleanup(f.root.Close)
	return f
}

func (f *family) child(t *testing.T, name string) *object.Server {
	n := &tree.Node{Config: f.node.Config, Backend: f.node.Backend, Name: name, Run: f.node.Run, Credentials: f.node.Credentials,
		Log: f.node.Log, Parent: new(tree.Parent)}
	opts := objecttest.Over(n)
	opts.Catalog = func(context.Context) (object.Ref, error) { return f.root.Catalog() }
	dial := opts.Dial
	opts.Dial = func(ctx context.Context, endpoint string) (*transport.Conn, error) {
		f.dials.Add(1)
		if f.cut.Load() {
			return nil, syscall.EHOSTUNREACH
		}
		conn, err := dial(ctx, endpoint)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, conn)
		}
		return conn, err
	}
	s := object.New(opts)
	t.Cleanup(s.Close)
	return s
}

// part cuts all connections, until join.
func (f *family) part() {
	f.cut.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.conns = nil
}

func (f *family) join() { f.cut.Store(false) }

// bulk is more than the root gets a copy of from the beginning.
const bulk = 10_000

// shares has a process share a value that others may know.
func shares(t *testing.T, s *object.Server, value string) object.Ref {
	at, err := s.Keep(t.Context(), [][]byte{[]byte(strings.Repeat(value, bulk))})
	require.NoError(t, err)
	ref, err := s.List(t.Context(), at)
	require.NoError(t, err)
	s.Hold(ref)
	s.Travels(ref)
	return ref
}

func value(t *testing.T, s *object.Server, ref object.Ref) string {
	c, err := s.Fetch(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, c.Frames, 1)
	require.Len(t, c.Frames[0], bulk)
	return string(c.Frames[0][:1])
}

// A process hands over what it has shared also when its connection has just ended.
func TestHandOverThroughAGap(t *testing.T) {
	f := newFamily(t)
	maker, other := f.child(t, "Maker"), f.child(t, "Other")
	ref := shares(t, maker, "x")
	other.Hold(ref)
	require.Equal(t, "x", value(t, other, ref))
	f.part()
	time.AfterFunc(50*time.Millisecond, f.join)
	lost, err := maker.HandOver(t.Context())
	require.NoError(t, err)
	require.Zero(t, lost)
	maker.Close()
	require.Equal(t, "x", value(t, other, ref))
}

// A process that is out of reach keeps its values, and asks the root a few times a second at most whether they are wanted.
func TestMakerOutOfReach(t *testing.T) {
	f := newFamily(t)
	maker := f.child(t, "Maker")
	var refs []object.Ref
	for range 50 {
		refs = append(refs, shares(t, maker, "x"))
	}
	f.part()
	before := f.dials.Load()
	time.Sleep(object.Grace + object.Grace/2) // for so long, nobody holds the values
	require.Less(t, f.dials.Load()-before, int64(1000))
	f.join()
	for _, ref := range refs {
		require.Equal(t, "x", value(t, maker, ref))
		require.Eventually(t, func() bool { _, err := f.root.Fetch(t.Context(), ref); return err == nil }, time.Minute, 10*time.Millisecond)
	}
}

// A value is withdrawn at once where that is said, and elsewhere as soon as the home can be reached.
func TestWithdrawOutOfReach(t *testing.T) {
	f := newFamily(t)
	maker, other := f.child(t, "Maker"), f.child(t, "Other")
	ref := shares(t, maker, "x")
	other.Hold(ref)
	require.NoError(t, maker.Give(t.Context(), ref))
	require.Equal(t, "x", value(t, other, ref))
	f.part()
	other.Withdraw(ref, time.Minute)
	_, err := other.Fetch(t.Context(), ref)
	require.ErrorIs(t, err, object.ErrGone)
	f.join()
	for _, s := range []*object.Server{f.root, maker, other} {
		require.Eventually(t, func() bool { _, err := s.Fetch(t.Context(), ref); return err != nil }, time.Minute, 10*time.Millisecond)
		require.ErrorIs(t, s.Look(t.Context(), ref), object.ErrGone)
	}
}

// Once the run ends, nothing is handed over.
func TestHandOverToARootThatLeaves(t *testing.T) {
	f := newFamily(t)
	maker := f.child(t, "Maker")
	ref := shares(t, maker, "x")
	f.root.Leave()
	lost, err := maker.HandOver(t.Context())
	require.NoError(t, err)
	require.Zero(t, lost)
	maker.Close()
	require.Error(t, f.root.Look(t.Context(), ref))
}
