//go:build unix

package tree

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// crowd is two ends of streams, the first of which serves few at a time.
type crowd struct {
	streams  *streams
	opener   *yamux.Session
	serving  atomic.Int64
	peak     atomic.Int64
	unheard  atomic.Int64
	unasked  atomic.Int64 // its peak
	begun    chan net.Conn
	readErr  chan error
	returned chan struct{} // one stream is done for each
}

func newCrowd(t *testing.T, most, asking int) *crowd {
	down, up := connected(t, transport.Options{}, transport.Options{})
	c := &crowd{streams: &streams{most: most, asking: asking}, begun: make(chan net.Conn, 1000), readErr: make(chan error, 1),
		returned: make(chan struct{})}
	c.streams.over(down, yamux.Server, c.serve)
	other := new(streams)
	c.opener = other.over(up, yamux.Client, func(net.Conn, func()) {})
	go func() { // the server's end
		for {
			frames, err := down.Recv()
			if err == nil {
				err = c.streams.carrier.put(frames[1:])
			}
			if err != nil {
				c.readErr <- err
				down.Close()
				c.streams.close()
				return
			}
		}
	}()
	go func() {
		for {
			frames, err := up.Recv()
			if err != nil || other.carrier.put(frames[1:]) != nil {
				other.close()
				return
			}
		}
	}()
	t.Cleanup(func() {
		down.Close()
		c.streams.serving.Wait()
	})
	return c
}

func (c *crowd) serve(s net.Conn, heard func()) {
	defer s.Close()
	raise(&c.peak, c.serving.Add(1))
	raise(&c.unasked, c.unheard.Add(1))
	_, err := io.ReadFull(s, make([]byte, 1)) // the request
	c.unheard.Add(-1)
	heard()
	if err == nil {
		c.begun <- s
		<-c.returned
	}
	c.serving.Add(-1)
}

func raise(peak *atomic.Int64, n int64) {
	for {
		if was := peak.Load(); was >= n || peak.CompareAndSwap(was, n) {
			return
		}
	}
}

// open opens a stream, and says a request unless it is "".
func (c *crowd) open(t *testing.T, request string) net.Conn {
	s, err := c.opener.Open()
	require.NoError(t, err)
	_, err = io.WriteString(s, request)
	require.NoError(t, err)
	return s
}

// More streams than one process may have wait for those before them.
func TestStreamsThatWait(t *testing.T) {
	t.Parallel()
	const most, all = 4, 40
	c := newCrowd(t, most, 2)
	for range all {
		c.open(t, "x")
	}
	for range all {
		<-c.begun
		c.returned <- struct{}{}
	}
	require.LessOrEqual(t, c.peak.Load(), int64(most))
}

// So do streams behind others whose request does not come.
func TestStreamsWithoutARequest(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 100, 2)
	var silent []net.Conn
	for range 10 {
		silent = append(silent, c.open(t, ""))
	}
	c.open(t, "x")
	for _, s := range silent {
		s.Close()
	}
	<-c.begun
	close(c.returned)
	require.LessOrEqual(t, c.unasked.Load(), int64(2))
}

// A process that does not close its streams is disconnected.
func TestStreamsThatAreNotClosed(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 10, 10)
	close(c.returned)
	go func() {
		for range 1000 {
			s, err := c.opener.Open()
			if err != nil {
				return
			}
			io.WriteString(s, "x")
		}
	}()
	err := <-c.readErr
	require.ErrorIs(t, err, wire.ErrMalformed)
	require.ErrorContains(t, err, "streams that it does not close")
}

// Bytes beyond the windows end the streams.
func TestBytesBeyondTheWindows(t *testing.T) {
	t.Parallel()
	c := &carrier{more: make(chan struct{}, 1)}
	c.open, c.close = context.WithCancelCause(context.Background())
	chunk := make([]byte, 1<<20)
	for range maxUntaken / len(chunk) {
		require.NoError(t, c.put([][]byte{chunk}))
	}
	require.ErrorIs(t, c.put([][]byte{chunk}), wire.ErrMalformed)
	require.ErrorIs(t, c.put(nil), wire.ErrMalformed)
	require.Equal(t, maxUntaken+len(chunk), c.size)
}

// A process that repeats its goodbye is ended: it may never read the answers.
func TestManyGoodbyes(t *testing.T) {
	t.Parallel()
	down, up := connected(t, transport.Options{}, transport.Options{})
	c := &Child{link: link{conn: down}}
	go up.Recv()
	bye := wire.MustPack(wire.KindBye, nil)
	require.NoError(t, c.handle(bye))
	require.ErrorIs(t, c.handle(bye), wire.ErrMalformed)
	require.ErrorContains(t, c.handle([][]byte{{200}}), "kind 200")
}

// Before a process has said which one it is, it cannot say much.
func TestHelloIsShort(t *testing.T) {
	t.Parallel()
	hello := func(size int) visit {
		down, up := connected(t, transport.Options{}, transport.Options{})
		table := []string{strings.Repeat("f", size)}
		go up.Send(context.Background(), wire.MustPack(wire.KindHello, wire.Hello{Process: "p", Table: table})...)
		v := greet(down)
		if v.err == nil {
			go up.Send(context.Background(), make([]byte, maxHello+1000))
			_, err := down.Recv()
			require.NoError(t, err, "later messages may be longer")
		}
		return v
	}
	require.NoError(t, hello(maxHello-1000).err)
	require.ErrorAs(t, hello(maxHello).err, new(*transport.SizeError))
}

// Of reasons, and hosts, that are ever new, only so many are remembered.
func TestManyReasons(t *testing.T) {
	t.Parallel()
	var r recent
	said := 0
	for i := range 10 * maxRecent {
		if r.add(fmt.Sprint(i)) {
			said++
		}
	}
	require.Equal(t, maxRecent, said)
	require.Len(t, r.keys, maxRecent)
	require.False(t, r.has("never"))
}
