package retry

import (
	"context"
	"errors"
	"net"
	"time"
)

// Accept hands each connection to serve, in a goroutine of its own, until the listener is closed. After another error, such as a lack of
// file descriptors, it pauses and goes on.
func Accept(l net.Listener, serve func(net.Conn)) {
	for again := (Pauses{Longest: time.Second}); ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			again.Reset()
			go serve(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			again.Wait(context.Background())
		}
	}
}
