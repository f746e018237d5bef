package transport_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// pour makes the peer of a connection send data and close, and reads to the
// end.
func pour(b net.Conn, data []byte) {
	go func() {
		_, _ = b.Write(data)
		if half, ok := b.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, b)
		_ = b.Close()
	}()
}

func FuzzRecv(f *testing.F) {
	hello := append(greeting(), ready()...)
	for _, b := range [][]byte{
		nil,
		greeting(),
		hello,
		append(hello[:len(hello):len(hello)], frame(0, []byte("hello"))...),
		append(hello[:len(hello):len(hello)], frame(more, bytes.Repeat([]byte("x"), 300))...),
		append(hello[:len(hello):len(hello)], cmd("PING", "\x00\x00context")...),
		append(hello[:len(hello):len(hello)], binary.BigEndian.AppendUint64([]byte{2}, 1<<62)...),
		append(greeting(), cmd("READY", "\x0bSocket-Type\x00")...),
	} {
		f.Add(b)
	}
	opts := transport.Options{MaxMessage: 1 << 16, MaxFrames: 16, HeartbeatInterval: -1, HandshakeTimeout: 5 * time.Second}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := unixPair(t)
		pour(b, data)
		memory := allocated(func() {
			c, err := transport.Open(a, true, opts)
			if err != nil {
				return
			}
			defer c.Close()
			for total := 0; ; {
				m, err := c.Recv()
				if err != nil {
					return
				}
				if len(m) == 0 || len(m) > opts.MaxFrames {
					t.Fatalf("message of %d frames", len(m))
				}
				for _, f := range m {
					total += len(f)
				}
				if total > len(data) {
					t.Fatalf("%d bytes out of %d", total, len(data))
				}
			}
		})
		// Memory is taken for at most one message before its bytes have come.
		if limit := uint64(1<<20 + 64*len(data)); memory > limit {
			t.Fatalf("%d bytes taken for %d", memory, len(data))
		}
	})
}

func FuzzAuth(f *testing.F) {
	nonce := frame(0, make([]byte, 32))
	f.Add([]byte(nil))
	f.Add(nonce)
	f.Add(append(nonce, nonce...))
	f.Add(append(frame(more, make([]byte, 32)), nonce...))
	l := listeners["unix"](f, credentials(f), transport.Options{HandshakeTimeout: 5 * time.Second})
	go func() {
		if _, err := l.Accept(); err == nil {
			panic("a stranger got in")
		}
	}()
	f.Fuzz(func(t *testing.T, data []byte) {
		nc, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write(append(append(greeting(), ready()...), data...))
		_ = nc.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, nc)
	})
}
