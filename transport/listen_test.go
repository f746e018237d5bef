package transport_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

func credentials(t testing.TB) *transport.Credentials {
	t.Helper()
	cred, err := transport.NewCredentials()
	require.NoError(t, err)
	return cred
}

type listenFunc func(testing.TB, *transport.Credentials, transport.Options) *transport.Listener

var listeners = map[string]listenFunc{
	"unix": func(t testing.TB, cred *transport.Credentials, opts transport.Options) *transport.Listener {
		l, err := transport.ListenUnix("", cred, opts)
		return closed(t, l, err)
	},
	"tls": func(t testing.TB, cred *transport.Credentials, opts transport.Options) *transport.Listener {
		l, err := transport.ListenTLS("127.0.0.1:0", cred, opts)
		return closed(t, l, err)
	},
}

func closed(t testing.TB, l *transport.Listener, err error) *transport.Listener {
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

func eachListener(t *testing.T, f func(*testing.T, listenFunc)) {
	t.Parallel()
	for name, listen := range listeners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, listen)
		})
	}
}

// conversation dials l and accepts the connection.
func conversation(t testing.TB, l *transport.Listener, cred *transport.Credentials) (dialed, accepted *transport.Conn) {
	t.Helper()
	dialed, err := transport.Dial(t.Context(), l.Endpoint(), cred, transport.Options{HandshakeTimeout: time.Minute})
	require.NoError(t, err)
	return dialed, answered(t, l, dialed)
}

// answered accepts a connection that was dialled; both are closed when the test
// ends.
func answered(t testing.TB, l *transport.Listener, dialed *transport.Conn) *transport.Conn {
	t.Helper()
	accepted, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		dialed.Close()
		accepted.Close()
	})
	return accepted
}

func exchange(t testing.TB, a, b *transport.Conn, msg []byte) {
	t.Helper()
	for range 2 {
		sent := make(chan error, 1)
		go func() { sent <- a.Send(context.Background(), msg) }()
		got, err := b.Recv()
		require.NoError(t, err)
		require.NoError(t, <-sent)
		require.Len(t, got, 1)
		require.Equal(t, len(msg), len(got[0]))
		a, b = b, a
	}
}

func TestDialAndAccept(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		cred := credentials(t)
		l := listen(t, cred, transport.Options{})
		a, b := conversation(t, l, cred)
		exchange(t, a, b, []byte("hello"))
		exchange(t, a, b, make([]byte, 20<<20))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		exchange(t, a, b, []byte("the accepted ones live on"))
		_, err := l.Accept()
		require.ErrorIs(t, err, transport.ErrClosed)
		_, err = transport.Dial(t.Context(), l.Endpoint(), cred, transport.Options{})
		require.Error(t, err)
		require.NoError(t, a.Close())
		_, err = b.Recv()
		require.Equal(t, io.EOF, err)
	})
}

func TestManyDialAtOnce(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		cred := credentials(t)
		opts := transport.Options{HandshakeTimeout: time.Minute}
		l := listen(t, cred, opts)
		const n = 400 // more than handshakes are allowed in flight
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				c, err := transport.Dial(context.Background(), l.Endpoint(), cred, opts)
				if assert.NoError(t, err) {
					assert.NoError(t, c.Send(context.Background(), []byte("here")))
					_, err = c.Recv() // ends when the other end has read it
					assert.Error(t, err)
					c.Close()
				}
			})
		}
		for range n {
			c, err := l.Accept()
			require.NoError(t, err)
			wg.Go(func() {
				m, err := c.Recv()
				if assert.NoError(t, err) {
					assert.Equal(t, "here", string(m[0]))
				}
				c.Close()
			})
		}
		wg.Wait()
	})
}

func TestCredentialsTravel(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		cred := credentials(t)
		data, err := cred.MarshalBinary()
		require.NoError(t, err)
		child := new(transport.Credentials)
		require.NoError(t, child.UnmarshalBinary(data))
		a, b := conversation(t, listen(t, cred, transport.Options{}), child)
		exchange(t, a, b, []byte("hello"))
		require.Error(t, child.UnmarshalBinary(data[1:]))
		require.NotContains(t, child.String(), string(data[1:]))
	})
}

func TestAnotherRunStaysOut(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		l := listen(t, credentials(t), transport.Options{})
		nobody(t, l)
		_, err := transport.Dial(t.Context(), l.Endpoint(), credentials(t), transport.Options{})
		require.ErrorIs(t, err, transport.ErrAuth)
	})
}

func TestNoCredentialsNoConnection(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		l := listen(t, credentials(t), transport.Options{})
		nobody(t, l)
		_, err := transport.Dial(t.Context(), l.Endpoint(), new(transport.Credentials), transport.Options{})
		require.ErrorContains(t, err, "the credentials are empty")
	})
}

// nobody fails the test if l accepts a connection.
func nobody(t *testing.T, l *transport.Listener) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := l.Accept(); err == nil {
			t.Error("a stranger got in")
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
}

// TestWrongProofs tries peers that get through the ZMTP handshake and fail at
// each step of the authentication.
func TestWrongProofs(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(*transport.Conn){
		"says nothing":     func(c *transport.Conn) { c.Close() },
		"a short nonce":    func(c *transport.Conn) { c.Post(make([]byte, 31)) },
		"a long nonce":     func(c *transport.Conn) { c.Post(make([]byte, 33)) },
		"two nonces":       func(c *transport.Conn) { c.Post(make([]byte, 32), make([]byte, 32)) },
		"a large message":  func(c *transport.Conn) { c.Post(make([]byte, 1<<20)) },
		"no proof":         func(c *transport.Conn) { c.Post(make([]byte, 32)); c.Post(nil) },
		"a made-up proof":  func(c *transport.Conn) { c.Post(make([]byte, 32)); c.Post(make([]byte, 32)) },
		"too many frames":  func(c *transport.Conn) { c.Post(make([]byte, 32)); c.Post(make([]byte, 32), nil) },
		"the proof itself": reflect,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listeners["unix"](t, credentials(t), transport.Options{})
			nobody(t, l)
			nc, err := net.Dial("unix", strings.TrimPrefix(l.Endpoint(), "unix:"))
			require.NoError(t, err)
			c, err := transport.Open(nc, false, transport.Options{})
			require.NoError(t, err)
			defer c.Close()
			talk(c)
			for {
				if _, err = c.Recv(); err != nil {
					break
				}
			}
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, transport.ErrClosed), "%v", err)
		})
	}
}

// reflect sends the listener its own nonce and its own proof back.
func reflect(c *transport.Conn) {
	for range 2 {
		if m, err := c.Recv(); err == nil {
			c.Post(m[0])
		}
	}
}

func TestOnlyTLS(t *testing.T) {
	t.Parallel()
	cred := credentials(t)
	l := listeners["tls"](t, cred, transport.Options{})
	nobody(t, l)
	address := l.Addr().String()
	t.Run("plaintext", func(t *testing.T) {
		nc, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = transport.Open(nc, false, transport.Options{})
		require.Error(t, err)
	})
	for name, config := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true},
		"TLS 1.2":        {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := tls.Dial("tcp", address, config)
			if err == nil {
				_, err = transport.Open(nc, false, transport.Options{})
			}
			require.Error(t, err)
		})
	}
	t.Run("a server of nobody's", func(t *testing.T) {
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer plain.Close()
		go func() {
			nc, err := plain.Accept()
			if err == nil {
				_, _ = transport.Open(nc, true, transport.Options{})
			}
		}()
		_, err = transport.Dial(t.Context(), "tls:"+plain.Addr().String(), cred, transport.Options{})
		require.Error(t, err)
	})
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	cred := credentials(t)
	for _, endpoint := range []string{"", "tcp:127.0.0.1:1", "unix:/nonexistent/socket", "tls:127.0.0.1:1", "tls:nonsense"} {
		_, err := transport.Dial(t.Context(), endpoint, cred, transport.Options{})
		require.ErrorContains(t, err, "transport: dial "+endpoint)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = transport.Dial(ctx, "tls:"+l.Addr().String(), cred, transport.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestHostilePeers lets a thousand peers shout, stay silent or go half way,
// while one conversation of the run goes on and another begins.
func TestHostilePeers(t *testing.T) { // not parallel: it measures memory
	for name, listen := range listeners {
		t.Run(name, func(t *testing.T) {
			cred := credentials(t)
			l := listen(t, cred, transport.Options{HandshakeTimeout: time.Second})
			meet := func() (dialed, accepted *transport.Conn) {
				require.Eventually(t, func() bool { // on a busy machine a handshake may take longer than that
					var err error
					dialed, err = transport.Dial(t.Context(), l.Endpoint(), cred, transport.Options{})
					return err == nil
				}, time.Minute, time.Millisecond)
				return dialed, answered(t, l, dialed)
			}
			a, b := meet()
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)

			network, address, _ := strings.Cut(l.Endpoint(), ":")
			if network == "tls" {
				network = "tcp"
			}
			garbage := make([]byte, 64<<10)
			_, _ = rand.Read(garbage)
			var wg sync.WaitGroup
			limit := make(chan struct{}, 300)
			for i := range 1000 {
				wg.Go(func() {
					limit <- struct{}{}
					defer func() { <-limit }()
					nc, err := net.Dial(network, address)
					if err != nil {
						return
					}
					defer nc.Close()
					switch i % 5 {
					case 0:
						_, _ = nc.Write(garbage)
					case 1:
						_, _ = nc.Write(greeting())
					case 2:
						_, _ = nc.Write(append(greeting(), ready()...))
					case 3:
						_, _ = nc.Write(append(greeting(), 6, 0x3f, 0, 0, 0, 0, 0, 0, 0))
					}
					_, _ = io.Copy(io.Discard, nc) // until the listener has had enough
				})
			}
			var peak uint64
			stop := make(chan struct{})
			go func() { wg.Wait(); close(stop) }()
			for going := true; going; {
				exchange(t, a, b, []byte("all is well"))
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapInuse+now.StackInuse-before.HeapInuse-before.StackInuse)
				select {
				case <-stop:
					going = false
				case <-time.After(50 * time.Millisecond):
				}
			}
			assert.Less(t, peak, uint64(100<<20))
			c, d := meet()
			exchange(t, c, d, []byte("hello"))
		})
	}
}

// Strangers that take all places and never leave lose one to each newcomer: the
// oldest from the address that has the most.
func TestStrangersHoldNobodyUp(t *testing.T) {
	for _, say := range []string{"", "\x16", "\xff"} { // nothing, and how TLS and ZMTP begin
		t.Run(fmt.Sprintf("%q", say), func(t *testing.T) {
			eachListener(t, func(t *testing.T, listen listenFunc) {
				cred := credentials(t)
				l := listen(t, cred, transport.Options{HandshakeTimeout: time.Hour})
				network, address, _ := strings.Cut(l.Endpoint(), ":")
				var dialer net.Dialer
				stranger := func(host byte) net.Conn {
					if network == "tls" {
						dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}
					}
					nc, err := dialer.Dial(strings.Replace(network, "tls", "tcp", 1), address)
					require.NoError(t, err)
					t.Cleanup(func() { nc.Close() })
					_, _ = nc.Write([]byte(say))
					return nc
				}
				// Unix sockets have one address, and its users are known when they say something.
				if network == "unix" && say != "" {
					return
				}
				var few, many []net.Conn
				for range 50 {
					few = append(few, stranger(3))
				}
				for range 250 {
					many = append(many, stranger(1)) // where our own come from
				}
				if network == "unix" {
					many = append(few, many...)
				}
				for range 10 {
					conversation(t, l, cred)
				}
				for i, nc := range many {
					late := i < 45 // 300 were there, and one more came at a time, for 256 places
					if !late {
						require.NoError(t, nc.SetReadDeadline(time.Now().Add(time.Millisecond)))
					}
					_, err := nc.Read(make([]byte, 1))
					require.Equal(t, !late, errors.Is(err, os.ErrDeadlineExceeded), "%d: %v", i, err)
				}
			})
		})
	}
}

// Processes of the run that dial, but that nobody accepts, take the places of handshakes: the next ones wait.
func TestConnectionsThatNobodyAccepts(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		const places, more = 256, 20
		cred := credentials(t)
		l := listen(t, cred, transport.Options{HandshakeTimeout: time.Hour})
		dialled := make(chan *transport.Conn, places+more)
		dial := func() {
			c, err := transport.Dial(context.Background(), l.Endpoint(), cred, transport.Options{HandshakeTimeout: time.Hour})
			if assert.NoError(t, err) {
				dialled <- c
			}
		}
		for range places {
			dial()
		}
		require.Equal(t, places, l.Waiting())
		for range more {
			go dial()
		}
		for range places + more {
			require.LessOrEqual(t, l.Waiting(), places)
			c, err := l.Accept()
			require.NoError(t, err)
			t.Cleanup(func() { c.Close() })
		}
		for range places + more {
			c := <-dialled
			t.Cleanup(func() { c.Close() })
		}
	})
}

func TestCloseOfAListenerEndsItsHandshakes(t *testing.T) {
	eachListener(t, func(t *testing.T, listen listenFunc) {
		l := listen(t, credentials(t), transport.Options{HandshakeTimeout: time.Minute})
		network, address, _ := strings.Cut(l.Endpoint(), ":")
		if network == "tls" {
			network = "tcp"
		}
		nc, err := net.Dial(network, address)
		require.NoError(t, err)
		defer nc.Close()
		require.NoError(t, l.Close())
		_, err = io.Copy(io.Discard, nc)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout())
	})
}

func TestUnixDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "transport")
	require.NoError(t, err)
	defer os.RemoveAll(parent)
	cred := credentials(t)
	l, err := transport.ListenUnix(parent, cred, transport.Options{})
	require.NoError(t, err)
	dir := filepath.Dir(strings.TrimPrefix(l.Endpoint(), "unix:"))
	require.Equal(t, parent, filepath.Dir(dir))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, l.Close())
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)

	deep := filepath.Join(parent, strings.Repeat("d", 100))
	require.NoError(t, os.Mkdir(deep, 0o700))
	_, err = transport.ListenUnix(deep, cred, transport.Options{})
	require.ErrorContains(t, err, "too deep")
	left, err = os.ReadDir(deep)
	require.NoError(t, err)
	require.Empty(t, left)
}
