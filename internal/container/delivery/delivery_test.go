package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is what a reader has passed on.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	missing int64
	gaps    []string
	hold    chan struct{} // unless nil, a Write waits until it is closed
}

func (o *output) Write(p []byte) (int, error) {
	if o.hold != nil {
		<-o.hold
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) Missing(n int64, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missing += n
	o.gaps = append(o.gaps, fmt.Sprintf("%d after %d %s", n, o.text.Len(), why))
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// cut is an end of a connection that breaks when so many bytes were read.
type cut struct {
	net.Conn
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// to returns a connection to a sender, which breaks when so many bytes were read.
func to(s *Sender, bytes int) (*transport.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		if conn, err := transport.Open(theirs, true, transport.Options{}); err == nil {
			s.serve(conn)
		}
	}()
	return transport.Open(&cut{ours, bytes}, false, transport.Options{})
}

const whole = 1 << 40

// once connects to a sender once.
func once(s *Sender) func(context.Context) (*transport.Conn, error) {
	used := false
	return func(context.Context) (*transport.Conn, error) {
		if used {
			return nil, errors.New("once only")
		}
		used = true
		return to(s, whole)
	}
}

// lines returns numbered lines of so many bytes, or a few more.
func lines(bytes int) string {
	var text strings.Builder
	for i := 0; text.Len() < bytes; i++ {
		fmt.Fprintf(&text, "line %d %s\n", i, strings.Repeat("x", i%100))
	}
	return text.String()
}

// write writes lines as an init does, a few at a time.
func write(s *Sender, text string) {
	for len(text) > 0 {
		n := strings.LastIndexByte(text[:min(len(text), 10_000)], '\n') + 1
		s.Write([]byte(text[:n]))
		text = text[n:]
	}
}

// Connections that break at any byte neither lose nor double anything.
func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := lines(2 << 20)
		for _, most := range []int{300, 3000, 200_000} {
			s := NewSender()
			go func() {
				write(s, text)
				s.End(t.Context())
			}()
			var got output
			connections := 0
			require.NoError(t, Read(t.Context(), func(context.Context) (*transport.Conn, error) {
				for {
					connections++
					bytes := rand.IntN(most)
					if connections > 1000 {
						bytes = whole
					}
					if conn, err := to(s, bytes); err == nil {
						return conn, nil
					}
				}
			}, &got))
			require.Greater(t, connections, 3)
			require.Empty(t, got.gaps)
			require.True(t, text == got.String(), "it differs")
		}
	})
}

// A reader that is slow makes the program wait, for however long, and keeps its connection.
func TestASlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, text := NewSender(), lines(4<<20)
		written := make(chan struct{})
		go func() {
			defer close(written)
			write(s, text)
		}()
		got := output{hold: make(chan struct{})}
		read := make(chan error)
		go func() { read <- Read(t.Context(), once(s), &got) }()
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		select {
		case <-written:
			t.Fatal("nobody has read it")
		default:
		}
		s.mu.Lock()
		require.LessOrEqual(t, len(s.kept), window)
		s.mu.Unlock()
		close(got.hold)
		<-written
		s.Ending()
		s.End(t.Context())
		require.NoError(t, <-read)
		require.Empty(t, got.gaps)
		require.True(t, text == got.String(), "it differs")
	})
}

// A program that has ended does not wait for a reader that has all of its output, and passes it on later.
func TestTheEndDoesNotWaitForASlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, text := NewSender(), lines(window-10_000)
		write(s, text)
		got := output{hold: make(chan struct{})}
		read := make(chan error)
		go func() { read <- Read(t.Context(), once(s), &got) }()
		synctest.Wait()
		s.Ending()
		more := lines(200_000) // was in its pipes
		write(s, more)
		begun := time.Now()
		s.End(t.Context())
		require.Zero(t, time.Since(begun))
		require.Empty(t, got.String())
		close(got.hold)
		require.NoError(t, <-read)
		require.True(t, text+more == got.String(), "it differs")
	})
}

// A program waits for its reader for a while. Then it goes on, and a reader that comes learns what is missing, between whole
// lines.
func TestAReaderThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, text := NewSender(), lines(3<<20)
		const read = 100_000 // bytes, before it goes
		var got output
		connections := 0
		coming := make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- Read(t.Context(), func(context.Context) (*transport.Conn, error) {
				if connections++; connections == 1 {
					return to(s, read)
				}
				<-coming
				return to(s, whole)
			}, &got)
		}()
		begun := time.Now()
		write(s, text)
		require.Equal(t, patience, time.Since(begun))
		time.Sleep(time.Hour)
		close(coming)
		s.End(t.Context())
		require.NoError(t, <-ended)
		require.Len(t, got.gaps, 1)
		require.Contains(t, got.gaps[0], " here: nobody read them for 1h1m0s")
		require.EqualValues(t, len(text), int64(got.text.Len())+got.missing)
		var before int
		_, err := fmt.Sscanf(got.gaps[0], "%d after %d", new(int), &before)
		require.NoError(t, err)
		require.NotZero(t, before)
		require.Equal(t, text[:before], got.String()[:before])
		require.True(t, strings.HasSuffix(got.String()[:before], "\n"))
		require.True(t, strings.HasSuffix(text, "\n"+got.String()[before:]), "the rest is the end of the output, from a line on")
		require.Greater(t, len(got.String()[before:]), window/2)
	})
}

// The end of a program waits for a reader that is on its way, and for none that has not come for long.
func TestTheEndWithoutAReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, begun := NewSender(), time.Now()
		write(s, "last words\n")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.End(t.Context())
		}()
		time.Sleep(patience / 2)
		var got output
		require.NoError(t, Read(t.Context(), once(s), &got))
		<-ended
		require.Equal(t, patience/2, time.Since(begun))
		require.Equal(t, "last words\n", got.String())

		s, begun = NewSender(), time.Now()
		s.End(t.Context())
		require.Equal(t, patience, time.Since(begun))
		s.End(t.Context()) // and at once
		require.Equal(t, patience, time.Since(begun))

		s, begun = NewSender(), time.Now()
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.End(within)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestAnEmptyOutput(t *testing.T) {
	t.Parallel()
	s := NewSender()
	var got output
	read := make(chan error)
	go func() { read <- Read(t.Context(), once(s), &got) }()
	s.End(t.Context())
	require.NoError(t, <-read)
	require.Empty(t, got.String())
}

// A second connection takes the place of the first, whose reader is most likely gone.
func TestAReaderThatComesTwice(t *testing.T) {
	t.Parallel()
	s := NewSender()
	write(s, "one\n")
	first, err := to(s, whole)
	require.NoError(t, err)
	defer first.Close()
	require.NoError(t, first.Post(wire.MustPack(wire.KindReading, wire.Reading{})...))
	_, err = first.Recv()
	require.NoError(t, err)
	var got output
	read := make(chan error)
	go func() { read <- Read(t.Context(), once(s), &got) }()
	_, err = first.Recv()
	require.Error(t, err, "it is closed")
	write(s, "two\n")
	s.End(t.Context())
	require.NoError(t, <-read)
	require.Equal(t, "one\ntwo\n", got.String())
}

// Nobody reads without the credentials. Whoever claims what can't be is disconnected.
func TestForgedReaders(t *testing.T) {
	t.Parallel()
	cred, err := transport.NewCredentials()
	require.NoError(t, err)
	target := Target{Port: freePort(t)}
	target.Credentials, err = cred.MarshalBinary()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Deliver(ctx, target.String())
	require.NoError(t, err)
	write(s, "secret\n")
	endpoint := fmt.Sprintf("tls:127.0.0.1:%d", target.Port)
	others, err := transport.NewCredentials()
	require.NoError(t, err)
	_, err = transport.Dial(t.Context(), endpoint, others, transport.Options{})
	require.Error(t, err)
	for _, claim := range [][][]byte{
		{}, {{byte(wire.KindOutput)}}, wire.MustPack(wire.KindReading, wire.Reading{From: 100}), wire.MustPack(wire.KindReading, wire.Reading{From: -1}),
		wire.MustPack(wire.KindReading, wire.Reading{Passed: 100}),
	} {
		conn, err := transport.Dial(t.Context(), endpoint, cred, transport.Options{})
		require.NoError(t, err)
		if len(claim) > 0 {
			require.NoError(t, conn.Send(t.Context(), claim...))
			for err == nil {
				_, err = conn.Recv()
			}
			require.ErrorIs(t, err, io.EOF)
		}
		conn.Close()
	}
	var got output
	read := make(chan error)
	go func() {
		read <- Read(t.Context(), func(ctx context.Context) (*transport.Conn, error) {
			return transport.Dial(ctx, endpoint, cred, transport.Options{})
		}, &got)
	}()
	s.End(t.Context())
	require.NoError(t, <-read)
	require.Equal(t, "secret\n", got.String())
	require.Empty(t, got.gaps, "the sender keeps what a forger claims to have read")
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A sender that dials comes again when it was not let in, and when its connection has broken.
func TestASenderThatDials(t *testing.T) {
	t.Parallel()
	cred, err := transport.NewCredentials()
	require.NoError(t, err)
	l, err := transport.ListenTLS("127.0.0.1:0", cred, transport.Options{})
	require.NoError(t, err)
	defer l.Close()
	target := Target{Endpoint: l.Endpoint(), Process: "an id"}
	target.Credentials, err = cred.MarshalBinary()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Deliver(ctx, target.String())
	require.NoError(t, err)
	text := lines(2 << 20)
	go func() {
		write(s, text)
		s.End(ctx)
	}()
	accept := func() *transport.Conn {
		conn, err := l.Accept()
		require.NoError(t, err)
		frames, err := conn.Recv()
		require.NoError(t, err)
		var hello wire.Hello
		require.NoError(t, wire.Unpack(frames, &hello))
		require.Equal(t, "an id", hello.Process)
		return conn
	}
	accept().Close() // unwanted
	var got output
	connections := 0
	require.NoError(t, Read(t.Context(), func(context.Context) (*transport.Conn, error) {
		conn := accept()
		if connections++; connections == 1 {
			time.AfterFunc(time.Millisecond, func() { conn.Close() })
		}
		return conn, nil
	}, &got))
	require.True(t, text == got.String(), "it differs")
}
