package transport_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

// beats returns an interval of little more than a second, another for each test.
func beats(n int) transport.Options {
	interval := time.Second + time.Duration(n)*time.Millisecond
	return transport.Options{HeartbeatInterval: interval, HeartbeatTimeout: 10 * interval}
}

// inBubble runs f under a fake clock, with a connection to a peer spoken by
// hand.
func inBubble(t *testing.T, opts transport.Options, f func(*testing.T, *transport.Conn, peer)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c, p := byHand(t, opts, a, b)
		f(t, c, p)
		c.Close()
		p.Close()
		synctest.Wait()
	})
}

// listen reads and counts the frames that p gets, until its end.
func listen(p peer) <-chan int {
	n := make(chan int, 1)
	go func() {
		count := 0
		for {
			if _, _, err := readFrame(p); err != nil {
				n <- count
				return
			}
			count++
		}
	}()
	return n
}

func TestSilentPeerIsLost(t *testing.T) {
	opts := beats(1)
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		pings := listen(p)
		began := time.Now()
		_, err := c.Recv()
		require.Equal(t, transport.ErrSilent, err)
		// The handshake's bytes count as life in the first interval.
		assert.Equal(t, opts.HeartbeatTimeout+opts.HeartbeatInterval, time.Since(began))
		<-c.Done()
		require.Equal(t, transport.ErrSilent, c.Err())
		require.Equal(t, transport.ErrSilent, c.Post([]byte("x")))
		assert.GreaterOrEqual(t, <-pings, 10)
	})
}

func TestHeartbeatsKeepAnIdleConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		one, two := open(t, a, b, beats(2))
		go two.Recv()
		go func() {
			time.Sleep(time.Hour)
			assert.NoError(t, two.Post([]byte("good morning")))
		}()
		m, err := one.Recv()
		require.NoError(t, err)
		assert.Equal(t, "good morning", string(m[0]))
		one.Close()
		two.Close()
		synctest.Wait()
	})
}

// An end that may wait for ever answers, and sends no PINGs of its own.
func TestOneEndPings(t *testing.T) {
	opts := beats(10)
	opts.HeartbeatTimeout = -1
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		go c.Recv()
		time.Sleep(opts.HeartbeatInterval / 2)
		for range 100 {
			_, err := p.Write(cmd("PING", "\x00\x00"))
			require.NoError(t, err)
			_, body := p.readFrame()
			require.Equal(t, "\x04PONG", string(body))
			time.Sleep(opts.HeartbeatInterval)
		}
		_, body := p.readFrame() // no PING came for that long
		require.Equal(t, "\x04PING", string(body[:5]))
	})
}

func TestAnyByteIsLife(t *testing.T) {
	opts := beats(3)
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		listen(p)
		go func() { // one message, a byte in nine seconds
			for _, b := range frame(0, []byte("slowly does it")) {
				time.Sleep(9 * opts.HeartbeatInterval)
				_, err := p.Write([]byte{b})
				assert.NoError(t, err)
			}
		}()
		m, err := c.Recv()
		require.NoError(t, err)
		require.Equal(t, "slowly does it", string(m[0]))
		_, err = c.Recv()
		require.Equal(t, transport.ErrSilent, err)
	})
}

func TestNobodyListensNobodyIsSilent(t *testing.T) {
	inBubble(t, beats(4), func(t *testing.T, c *transport.Conn, p peer) {
		listen(p)
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
		_, err := c.Recv()
		require.Equal(t, transport.ErrSilent, err)
	})
}

func TestNoTimeoutMeansForEver(t *testing.T) {
	opts := beats(5)
	opts.HeartbeatTimeout = -1
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		pings := listen(p)
		go c.Recv()
		time.Sleep(100*opts.HeartbeatInterval + 1)
		require.NoError(t, c.Err())
		c.Close()
		assert.Equal(t, 100, <-pings)
	})
}

func TestNoHeartbeats(t *testing.T) {
	inBubble(t, transport.Options{HeartbeatInterval: -1}, func(t *testing.T, c *transport.Conn, p peer) {
		pings := listen(p)
		go c.Recv()
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
		c.Close()
		assert.Zero(t, <-pings)
	})
}

func TestMessagesSpareThePings(t *testing.T) {
	opts := beats(6)
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		go c.Recv()
		frames := listen(p)
		go func() {
			for {
				if _, err := p.Write(frame(0, nil)); err != nil {
					return
				}
				time.Sleep(opts.HeartbeatInterval)
			}
		}()
		time.Sleep(opts.HeartbeatInterval / 2)
		for range 50 {
			require.NoError(t, c.Post([]byte("x")))
			time.Sleep(opts.HeartbeatInterval)
		}
		c.Close()
		assert.Equal(t, 50, <-frames)
	})
}

func TestStuckPeerIsNotPinged(t *testing.T) {
	opts := beats(7)
	opts.HeartbeatTimeout = -1
	inBubble(t, opts, func(t *testing.T, c *transport.Conn, p peer) {
		time.Sleep(time.Hour)
		n := listen(p)
		synctest.Wait()
		c.Close()
		assert.LessOrEqual(t, <-n, 1)
	})
}

func TestALateTickDoesNotCount(t *testing.T) {
	t.Parallel()
	assert.True(t, transport.OnTime(time.Second, time.Second))
	assert.True(t, transport.OnTime(1400*time.Millisecond, time.Second))
	assert.False(t, transport.OnTime(1600*time.Millisecond, time.Second))

	opts := transport.Options{HeartbeatInterval: time.Hour, HeartbeatTimeout: 3 * time.Hour}
	c, p := byHand(t, opts)
	listen(p)
	got := make(chan error, 1)
	go func() {
		_, err := c.Recv()
		got <- err
	}()
	for range 100 {
		transport.Tick(c, false)
	}
	require.NoError(t, c.Err())
	// On time, but only three in a row with Recv blocked in the socket count.
	require.Eventually(t, func() bool {
		transport.Tick(c, true)
		return c.Err() != nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, transport.ErrSilent, <-got)
}

func TestWhatWaitsToBeReadIsLife(t *testing.T) {
	t.Parallel()
	opts := transport.Options{HeartbeatInterval: time.Hour, HeartbeatTimeout: 3 * time.Hour}
	c, p := byHand(t, opts)
	listen(p)
	got := make(chan error, 1)
	go func() {
		_, err := c.Recv()
		got <- err
	}()
	for range 1000 {
		// Recv has hardly been woken when the tick comes; the byte is there.
		_, err := p.Write(frame(command, []byte("\x04PONG")))
		require.NoError(t, err)
		transport.Tick(c, true)
	}
	require.NoError(t, c.Err())
	_ = p.Close()
	require.Equal(t, io.EOF, <-got)
}
