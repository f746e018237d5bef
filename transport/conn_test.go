package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

var sockets = map[string]func(testing.TB) (net.Conn, net.Conn){
	"unix": unixPair,
	"tcp":  tcpPair,
	"pipe": func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() },
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{})
			go func() {
				for {
					m, err := two.Recv()
					if err != nil || two.Send(context.Background(), m...) != nil {
						return
					}
				}
			}()
			for _, sizes := range [][]int{
				{0}, {1}, {255}, {256}, {4096}, {4097}, {1 << 20}, {0, 0, 0},
				{1, 300, 5000, 0, 70000, 3}, {5 << 20, 1, 5 << 20},
			} {
				var sent [][]byte
				for i, n := range sizes {
					sent = append(sent, bytes.Repeat([]byte{byte('a' + i)}, n))
				}
				require.NoError(t, one.Send(t.Context(), sent...))
				got, err := one.Recv()
				require.NoError(t, err)
				require.Equal(t, len(sent), len(got))
				for i := range sent {
					require.True(t, bytes.Equal(sent[i], got[i]), "frame %d of %v", i, sizes)
				}
			}
		})
	}
}

func TestManySendersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{MaxQueue: 64 << 10})
			const senders, each = 16, 300
			var wg sync.WaitGroup
			for s := range senders {
				wg.Go(func() {
					large := bytes.Repeat([]byte{byte(s)}, 6000)
					for i := range each {
						head := binary.BigEndian.AppendUint32([]byte{byte(s)}, uint32(i))
						body := large[:(i*37)%len(large)]
						if s%2 == 0 {
							assert.NoError(t, one.Send(context.Background(), head, body))
						} else {
							assert.NoError(t, one.Post(head, body))
						}
					}
				})
			}
			var next [senders]uint32
			for range senders * each {
				m, err := two.Recv()
				require.NoError(t, err)
				require.Len(t, m, 2)
				s := m[0][0]
				i := binary.BigEndian.Uint32(m[0][1:])
				require.Equal(t, next[s], i)
				next[s]++
				require.Len(t, m[1], int(i)*37%6000)
				require.Equal(t, len(m[1]), bytes.Count(m[1], []byte{s}))
			}
			wg.Wait()
			require.NoError(t, one.Flush(t.Context()))
		})
	}
}

func TestCloseIsAnEndOfFileToThePeer(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		if name == "pipe" { // has no buffer: a flush waits for the reader
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{})
			require.NoError(t, one.Post([]byte("last words")))
			require.NoError(t, one.Flush(t.Context()))
			require.NoError(t, one.Close())
			require.NoError(t, one.Close())
			m, err := two.Recv()
			require.NoError(t, err)
			require.Equal(t, "last words", string(m[0]))
			_, err = two.Recv()
			require.Equal(t, io.EOF, err)
			<-two.Done()
			require.Equal(t, io.EOF, two.Err())
			require.Equal(t, io.EOF, two.Post([]byte("x")))

			_, err = one.Recv()
			require.ErrorIs(t, err, transport.ErrClosed)
			require.ErrorIs(t, one.Err(), transport.ErrClosed)
			require.ErrorIs(t, one.Post(nil), transport.ErrClosed)
			require.ErrorIs(t, one.Send(t.Context(), nil), transport.ErrClosed)
			require.ErrorIs(t, one.Flush(t.Context()), nil)
		})
	}
}

func TestCloseEndsARecv(t *testing.T) {
	t.Parallel()
	one, _ := pair(t, transport.Options{})
	got := make(chan error, 1)
	go func() {
		_, err := one.Recv()
		got <- err
	}()
	require.NoError(t, one.Close())
	require.Equal(t, transport.ErrClosed, <-got)
}

func TestOversizedMessageIsTheSendersError(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{MaxMessage: 1000, MaxFrames: 3})
	var size *transport.SizeError
	require.ErrorAs(t, one.Post(make([]byte, 600), make([]byte, 401)), &size)
	assert.Equal(t, transport.SizeError{Size: 1001, Limit: 1000}, *size)
	require.ErrorAs(t, one.Send(t.Context(), nil, nil, nil, nil), &size)
	assert.Equal(t, transport.SizeError{Size: 4, Limit: 3, Frames: true}, *size)
	require.Error(t, one.Post())
	require.NoError(t, one.Post(make([]byte, 1000)), "the connection is as before")
	m, err := two.Recv()
	require.NoError(t, err)
	require.Len(t, m[0], 1000)
}

func TestReceiverHasItsOwnBound(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{})
	two.LimitMessages(100)
	require.NoError(t, one.Post(make([]byte, 60), make([]byte, 40)))
	require.NoError(t, one.Post(make([]byte, 60), make([]byte, 41)))
	_, err := two.Recv()
	require.NoError(t, err)
	_, err = two.Recv()
	var size *transport.SizeError
	require.ErrorAs(t, err, &size)
	assert.EqualValues(t, 101, size.Size)
	require.ErrorAs(t, two.Err(), &size)
}

// fill posts until the socket of a peer that does not read is full.
func fill(t *testing.T, c *transport.Conn) (posted int) {
	t.Helper()
	msg := make([]byte, 3000)
	for range 20000 { // 60 MB: more than any socket's buffers
		require.NoError(t, c.Post(msg))
		posted++
	}
	return posted
}

func TestStuckPeerDoesNotBlockPost(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{})
			n := fill(t, one)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, one.Flush(ctx), context.DeadlineExceeded)
			for range n {
				_, err := two.Recv()
				require.NoError(t, err)
			}
			require.NoError(t, one.Flush(t.Context()))
		})
	}
}

func TestCancelledSendIsNeverDelivered(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{MaxQueue: 200 << 20})
			n := fill(t, one)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
					defer cancel()
					err := one.Send(ctx, []byte("cancelled"), make([]byte, i*1000))
					assert.Equal(t, context.DeadlineExceeded, err)
				})
			}
			wg.Wait()
			require.NoError(t, one.Post([]byte("after")))
			for range n {
				m, err := two.Recv()
				require.NoError(t, err)
				require.Len(t, m[0], 3000)
			}
			m, err := two.Recv()
			require.NoError(t, err)
			require.Equal(t, "after", string(m[0]))
			require.Len(t, m, 1)
		})
	}
}

func TestSendWithADeadContext(t *testing.T) {
	t.Parallel()
	one, _ := pair(t, transport.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, one.Send(ctx, []byte("x")))
}

func TestSendWaitsForRoom(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{MaxQueue: 1 << 20})
	const senders, each = 8, 200
	msg := make([]byte, 30000)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				assert.NoError(t, one.Send(context.Background(), msg))
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	require.Equal(t, context.DeadlineExceeded, one.Send(ctx, make([]byte, 2<<20)))
	for range senders * each {
		m, err := two.Recv()
		require.NoError(t, err)
		require.Len(t, m[0], len(msg))
	}
	wg.Wait()
}

func TestCloseEndsASendThatHasBegun(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sent := make(chan error, 1)
			go func() { sent <- one.Send(ctx, make([]byte, 64<<20)) }()
			// Once the head of the message is here, its sender can no longer
			// take it back.
			two.LimitMessages(10)
			_, err := two.Recv()
			var size *transport.SizeError
			require.ErrorAs(t, err, &size)
			cancel()
			require.NoError(t, one.Close())
			require.Error(t, <-sent)
		})
	}
}

func TestFailedWriteLeavesWhatHadArrived(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{})
	for range 10 {
		require.NoError(t, two.Post([]byte("result")))
	}
	require.NoError(t, two.Flush(t.Context()))
	require.NoError(t, two.Close())
	for one.Post(make([]byte, 1000)) == nil {
	}
	<-one.Done()
	require.Error(t, one.Err())
	for range 10 {
		m, err := one.Recv()
		require.NoError(t, err)
		require.Equal(t, "result", string(m[0]))
	}
	_, err := one.Recv()
	require.Error(t, err)
}

// gate is a socket that records its writes, and holds them back while shut.
type gate struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	g.writes = append(g.writes, p)
	g.mu.Unlock()
	return g.Conn.Write(p)
}

func (g *gate) taken() [][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writes
	g.writes = nil
	return w
}

func TestMessagesThatWaitLeaveTogether(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	g := &gate{Conn: a}
	one, two := open(t, g, b, transport.Options{HeartbeatInterval: -1})
	require.NoError(t, one.Flush(t.Context()))
	g.taken()
	// The pipe takes nothing until the peer reads, so the first write waits.
	for range 1000 {
		require.NoError(t, one.Post([]byte("sixteen bytes...")))
	}
	for range 1000 {
		_, err := two.Recv()
		require.NoError(t, err)
	}
	require.NoError(t, one.Flush(t.Context()))
	assert.LessOrEqual(t, len(g.taken()), 3)
}

// What is queued waits for the next message, or for Push.
func TestQueue(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]func(c *transport.Conn) error{
		"Push": func(c *transport.Conn) error { c.Push(); return nil },
		"Post": func(c *transport.Conn) error { return c.Post([]byte("the last")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			g := &gate{Conn: a}
			one, two := open(t, g, b, transport.Options{HeartbeatInterval: -1})
			require.NoError(t, one.Flush(t.Context()))
			g.taken()
			for range 3 {
				require.NoError(t, one.Queue([]byte("queued")))
			}
			synctest.Wait()
			require.Empty(t, g.taken(), name)
			require.NoError(t, push(one))
			for range 3 {
				got, err := two.Recv()
				require.NoError(t, err)
				require.Equal(t, [][]byte{[]byte("queued")}, got)
			}
			require.Equal(t, name == "Post", two.Buffered())
			require.NoError(t, one.Flush(t.Context()))
			require.Len(t, g.taken(), 1, "one write")
		})
	}
}

func TestLargeBodyIsNotCopied(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	g := &gate{Conn: a}
	one, two := open(t, g, b, transport.Options{HeartbeatInterval: -1})
	require.NoError(t, one.Flush(t.Context()))
	g.taken()
	body := make([]byte, 1<<20)
	go two.Recv()
	require.NoError(t, one.Post([]byte("head"), body))
	require.NoError(t, one.Flush(t.Context()))
	w := g.taken()
	require.Len(t, w, 2)
	assert.Same(t, &body[0], &w[1][0])
	assert.Len(t, w[1], len(body))
}

func TestPostAllocatesNextToNothing(t *testing.T) {
	one, two := pair(t, transport.Options{HeartbeatInterval: -1})
	msg := make([]byte, 64)
	// A run is a burst that is read only when it is over, so that Recv's own
	// allocations do not count.
	const burst = 100
	allocs := testing.AllocsPerRun(1, func() {
		for range burst {
			if err := one.Post(msg); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 * burst {
		_, err := two.Recv()
		require.NoError(t, err)
	}
	assert.Less(t, allocs/burst, 2.0, "per message: the codec's header, no more")
}

// Arrived finds the whole short messages that have come, and waits for none.
func TestArrived(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(testing.TB) (net.Conn, net.Conn){"unix": unixPair, "tcp": tcpPair} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			one, two := open(t, a, b, transport.Options{HeartbeatInterval: -1})
			require.False(t, two.Arrived())
			const n = 100
			for range n {
				require.NoError(t, one.Send(t.Context(), make([]byte, 100), make([]byte, 300)))
			}
			require.NoError(t, one.Send(t.Context(), make([]byte, 100_000)))
			recv := func(size int) {
				m, err := two.Recv()
				require.NoError(t, err)
				require.Len(t, m[0], size)
			}
			recv(100)
			if name == "unix" { // where all is there once it is sent
				for range n - 1 {
					require.True(t, two.Arrived())
					recv(100)
				}
			} else {
				for range n - 1 {
					recv(100)
				}
			}
			require.False(t, two.Arrived(), "a long message")
			recv(100_000)
			require.False(t, two.Arrived())
			require.NoError(t, one.Close())
			_, err := two.Recv()
			require.ErrorIs(t, err, io.EOF)
			require.True(t, two.Arrived(), "the end")
		})
	}
}

// Room waits until the peer has read enough of what was posted, or until the
// connection ends.
func TestRoom(t *testing.T) {
	t.Parallel()
	one, two := pair(t, transport.Options{MaxQueue: 1 << 20})
	require.NoError(t, one.Room())
	message := make([]byte, 100<<10)
	post := func() {
		for range 100 {
			require.NoError(t, one.Post(message))
		}
	}
	post()
	roomy := make(chan error, 1)
	wait := func() { roomy <- one.Room() }
	go wait()
	for range 50 { // most of what is left is still beyond the limit
		_, err := two.Recv()
		require.NoError(t, err)
	}
	require.Empty(t, roomy)
	for range 50 {
		_, err := two.Recv()
		require.NoError(t, err)
	}
	require.NoError(t, <-roomy)
	post()
	go wait()
	one.Close()
	require.ErrorIs(t, <-roomy, transport.ErrClosed)
}

// While Room blocks, a peer that reads lives. One that does not is silent, although
// something that it said before is unread.
func TestSilenceWhileRoomBlocks(t *testing.T) {
	t.Parallel()
	for name, dial := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := dial(t)
			// The test itself ticks.
			one, two := open(t, a, b, transport.Options{MaxQueue: 1 << 20, HeartbeatInterval: time.Hour, HeartbeatTimeout: 3 * time.Hour})
			for range 64 {
				require.NoError(t, one.Post(make([]byte, 1<<20)))
			}
			roomy := make(chan error, 1)
			go func() { roomy <- one.Room() }()
			for !transport.Held(one) {
				runtime.Gosched()
			}
			go two.Send(context.Background(), []byte("unread"))
			for range 10 {
				transport.Tick(one, true)
				for range 4 {
					_, err := two.Recv()
					require.NoError(t, err)
				}
				for !transport.Heard(one) {
					runtime.Gosched()
				}
			}
			require.NoError(t, one.Err())
			for end := time.Now().Add(time.Minute); one.Err() == nil && time.Now().Before(end); runtime.Gosched() {
				transport.Tick(one, true)
			}
			require.Equal(t, transport.ErrSilent, one.Err())
			require.Equal(t, transport.ErrSilent, <-roomy)
		})
	}
}

// Messages that fill the buffer come whole and in order, from when it is small
// until it has grown, however much of them is there already.
func TestMessagesThatFillTheBuffer(t *testing.T) {
	a, b := pair(t, transport.Options{})
	const n = 400
	message := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1+i*37%9000) }
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range n {
			assert.NoError(t, a.Send(t.Context(), message(i), message(i+1)))
		}
	}()
	defer func() { <-sent }()
	for i := range n {
		if i%7 == 0 {
			b.Arrived()
		}
		frames, err := b.Recv()
		require.NoError(t, err)
		require.Equal(t, [][]byte{message(i), message(i + 1)}, frames)
	}
	require.False(t, b.Arrived())
}
