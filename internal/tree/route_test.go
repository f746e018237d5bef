//go:build unix

package tree

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// nowhere is an address without a machine (RFC 5737).
const nowhere = "192.0.2.1"

// member is a node of a tree that a test has made. All its nodes are in this
// process, with real connections between them.
type member struct {
	*Node
	endpoint string
	accepted chan *transport.Conn
}

// devices are the GPUs of a tree.
var devices = []string{"0", "1"}

// tree makes a root with two children, the second of which has a child. Nodes
// whose address is nowhere cannot be dialled.
func tree(t *testing.T, hosts [4]string) (members [4]*member) {
	t.Helper()
	credentials, err := transport.NewCredentials()
	require.NoError(t, err)
	for i, place := range []string{"", "/1", "/2", "/2/1"} {
		n := &Node{Name: place, Place: place, Credentials: credentials, Log: slog.New(slog.DiscardHandler),
			Config: config.Config{HeartbeatInterval: 50 * time.Millisecond, HeartbeatTimeout: time.Hour, MaxMessage: 64 << 20}}
		n.listener.network.Make(t.Context(), func() (*backend.Network, error) {
			return &backend.Network{Host: hosts[i], Bind: "127.0.0.1"}, nil
		})
		members[i] = &member{Node: n, accepted: make(chan *transport.Conn, 1)}
	}
	members[0].has(devices...)
	for _, edge := range [][2]int{{0, 1}, {0, 2}, {2, 3}} {
		attach(t, members[edge[0]].Node, members[edge[1]].Node)
	}
	for _, m := range members {
		l, err := m.Listen(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		m.endpoint = l.Endpoint()
		go m.accept(l)
	}
	return members
}

// accept hands over connections that have been dialled and have said something, as
// a home does.
func (m *member) accept(l *transport.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			if _, err := conn.Recv(); err == nil {
				m.accepted <- conn
			}
		}()
	}
}

// connected returns the two ends of a connection, as a parent and a child on one
// machine have them.
func connected(t *testing.T, parent, child transport.Options) (down, up *transport.Conn) {
	t.Helper()
	ours, theirs, err := socketPair()
	require.NoError(t, err)
	fd, err := unix.Dup(int(theirs.Fd()))
	require.NoError(t, err)
	theirs.Close()
	nc, err := transport.Inherit(fd)
	require.NoError(t, err)
	opened := make(chan *transport.Conn, 1)
	go func() {
		conn, _ := transport.Open(ours, true, parent)
		opened <- conn
	}()
	up, err = transport.Open(nc, false, child)
	require.NoError(t, err)
	down = <-opened
	require.NotNil(t, down)
	t.Cleanup(func() { up.Close(); down.Close() })
	return down, up
}

// attach connects two nodes as parent and child.
func attach(t *testing.T, parent, child *Node) {
	t.Helper()
	attachOnly(t, parent, child)
	go child.Parent.Next(false)
}

// attachOnly does so with a child that reads nothing.
func attachOnly(t *testing.T, parent, child *Node) {
	t.Helper()
	down, up := connected(t, parent.TransportOptions(false), child.TransportOptions(false))
	c := &Child{node: parent, place: child.Place, link: link{conn: down}}
	c.reader = turn.New(c.conn, c.handle, nil, nil, func(error) { c.streams.close() })
	parent.add(c)
	child.Parent = &Parent{conn: up, node: child}
	go c.reader.Serve()
}

// talk sends a message of that size there and back.
func talk(t *testing.T, from, to *member, size int) *transport.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := from.Dial(ctx, to.endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	message := bytes.Repeat([]byte{7}, size)
	sent := make(chan error, 1)
	go func() { sent <- conn.Send(ctx, []byte("hello"), message) }()
	var other *transport.Conn
	select {
	case other = <-to.accepted:
	case <-ctx.Done():
		require.Fail(t, "nobody was connected")
	}
	t.Cleanup(func() { other.Close() })
	require.NoError(t, <-sent)
	go func() { sent <- other.Send(ctx, message) }()
	frames, err := conn.Recv()
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.True(t, len(frames) == 1 && bytes.Equal(frames[0], message), "the same message")
	return conn
}

// underWay counts the streams at a node.
func (n *Node) underWay() (count int) {
	var all []*yamux.Session
	if n.Parent != nil {
		all = append(all, n.Parent.session())
	}
	for _, c := range n.Children() {
		all = append(all, c.session())
	}
	for _, s := range all {
		if s != nil && !s.IsClosed() {
			count += s.NumStreams()
		}
	}
	return count
}

// A process that can be dialled is dialled.
func TestDialDirect(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"})
	talk(t, m[0], m[3], 100)
	require.Zero(t, m[0].underWay())
}

// Children that cannot dial each other talk through the tree.
func TestAlongTheTree(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", nowhere, nowhere, nowhere})
	one := talk(t, m[1], m[3], 100)
	other := talk(t, m[3], m[1], 10<<20)
	require.Equal(t, 2, m[1].underWay())
	one.Close()
	other.Close()
	waitFor(t, func() bool { return m[1].underWay()+m[3].underWay() == 0 })
}

// A connection whose bytes are not read holds up no others, and can be closed.
func TestAlongTheTreeToOneThatReadsNothing(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", nowhere, nowhere, nowhere})
	stuck := talk(t, m[1], m[3], 100)
	sent := make(chan error, 1)
	go func() { sent <- stuck.Send(t.Context(), make([]byte, 32<<20)) }()
	for range 3 {
		talk(t, m[1], m[3], 4<<20)
		talk(t, m[3], m[1], 4<<20)
	}
	require.Empty(t, sent)
	soon(t, "Close", func() { stuck.Close() })
	require.Error(t, <-sent)
}

// Dialling a process that has gone fails at once, and connections to it end.
func TestAlongTheTreeToNobody(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", nowhere, nowhere, nowhere})
	conn := talk(t, m[1], m[3], 100)
	m[3].Parent.conn.Close()
	_, err := conn.Recv()
	require.Error(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = m[1].Dial(ctx, m[3].endpoint)
	require.ErrorContains(t, err, "the process is gone")
	require.NoError(t, ctx.Err())
}

// The death of a process that was asked ends the wait for its answer.
func TestAlongTheTreeToOneThatDies(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", nowhere, nowhere, nowhere})
	heedless := &Node{Place: "/3"}
	attachOnly(t, m[0].Node, heedless)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m[0].routes.far.add(nowhere)
	dialled := make(chan error, 1)
	for _, place := range []string{"/3", "/3/1"} { // itself, and one below it
		go func() {
			_, err := m[0].Dial(ctx, placed("tls:"+nowhere+":1", place))
			dialled <- err
		}()
		frames, err := heedless.Parent.conn.Recv()
		require.NoError(t, err)
		require.Equal(t, wire.KindStream, wire.KindOf(frames))
	}
	heedless.Parent.conn.Close()
	for range 2 {
		require.ErrorContains(t, <-dialled, "the process is gone")
	}
	require.NoError(t, ctx.Err())
	require.Zero(t, m[0].underWay())
}
