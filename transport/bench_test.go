package transport_test

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/transport"
)

func BenchmarkPingPong(b *testing.B) {
	msg := make([]byte, 64)
	for name, dial := range map[string]func(testing.TB) (net.Conn, net.Conn){"unix": unixPair, "tcp": tcpPair} {
		b.Run(name+"/conn", func(b *testing.B) {
			x, y := dial(b)
			one, two := open(b, x, y, transport.Options{})
			go func() {
				for {
					m, err := two.Recv()
					if err != nil {
						return
					}
					if two.Post(m...) != nil {
						return
					}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				if one.Post(msg) != nil {
					b.Fatal("post")
				}
				if _, err := one.Recv(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/bufio", func(b *testing.B) {
			x, y := dial(b)
			defer x.Close()
			go func() {
				defer y.Close()
				r, w, buf := bufio.NewReader(y), bufio.NewWriter(y), make([]byte, 64)
				for {
					if _, err := io.ReadFull(r, buf); err != nil {
						return
					}
					w.Write(buf)
					w.Flush()
				}
			}()
			r, w, buf := bufio.NewReader(x), bufio.NewWriter(x), make([]byte, 64)
			for b.Loop() {
				w.Write(msg)
				w.Flush()
				_, err := io.ReadFull(r, buf)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkOneWay(b *testing.B) {
	for name, dial := range map[string]func(testing.TB) (net.Conn, net.Conn){"unix": unixPair, "tcp": tcpPair} {
		b.Run(name, func(b *testing.B) {
			x, y := dial(b)
			one, two := open(b, x, y, transport.Options{})
			msg := make([]byte, 64)
			done := make(chan error, 1)
			// Post never blocks, so a window of messages bounds what is outstanding.
			window := make(chan struct{}, 64)
			n := 0
			go func() {
				for i := 1; ; i++ {
					m, err := two.Recv()
					if err != nil || len(m[0]) == 0 {
						done <- err
						return
					}
					if i%1024 == 0 {
						window <- struct{}{}
					}
				}
			}()
			for range cap(window) - 1 {
				window <- struct{}{}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if n++; n%1024 == 0 {
					<-window
				}
				if err := one.Post(msg); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, one.Post(nil))
			require.NoError(b, <-done)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}

func BenchmarkLarge(b *testing.B) {
	for name, dial := range map[string]func(testing.TB) (net.Conn, net.Conn){"unix": unixPair, "tcp": tcpPair} {
		b.Run(name, func(b *testing.B) {
			x, y := dial(b)
			one, two := open(b, x, y, transport.Options{})
			msg := make([]byte, 10<<20)
			go func() {
				for {
					m, err := two.Recv()
					if err != nil || two.Send(b.Context(), m...) != nil {
						return
					}
				}
			}()
			b.SetBytes(2 * int64(len(msg)))
			for b.Loop() {
				require.NoError(b, one.Send(b.Context(), msg))
				_, err := one.Recv()
				require.NoError(b, err)
			}
		})
	}
}
