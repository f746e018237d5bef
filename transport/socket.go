package transport

import (
	"net"
	"syscall"
	"time"
)

// plain returns the socket below nc, which may speak TLS.
func plain(nc net.Conn) net.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = over.NetConn()
	}
}

// rawConn gives access to the descriptor of a plain socket; it returns nil for
// anything else.
func rawConn(nc net.Conn) syscall.RawConn {
	if !nonBlocking {
		return nil
	}
	if s, ok := nc.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

func isUnix(nc net.Conn) bool {
	_, ok := nc.RemoteAddr().(*net.UnixAddr)
	return ok
}

// awaitByte blocks until there is something to read, without allocating a
// buffer.
func awaitByte(nc net.Conn) error {
	if raw := rawConn(nc); raw != nil {
		return raw.Read(readable)
	}
	return nil
}

// pending reports whether there is something to read in the socket below nc.
func pending(nc net.Conn) bool {
	raw := rawConn(plain(nc))
	if raw == nil {
		return false
	}
	var yes bool
	err := raw.Control(func(fd uintptr) { yes = readable(fd) })
	return err == nil && yes
}

// stopReading ends reads from nc after what has already arrived.
func stopReading(nc net.Conn) {
	raw := rawConn(plain(nc))
	if raw == nil {
		_ = nc.SetReadDeadline(time.Now().Add(time.Second))
		return
	}
	_ = raw.Control(shutRead)
}

// goodbyeTime bounds how long the goodbye of a TLS connection waits for a peer
// that reads nothing. A deadline would not do: sockets outside of the poller
// have none for writes.
const goodbyeTime = time.Second

// closeSocket closes nc. A TLS connection says goodbye only if everything was
// delivered: the peer can tell the difference, and a stuck peer does not delay
// the close.
//
// Unread bytes, most likely heartbeats, are read first: closing a socket with
// unread bytes would reset the connection and discard what the peer has not
// received yet.
func closeSocket(nc net.Conn, goodbye bool) {
	if raw := rawConn(plain(nc)); raw != nil {
		_ = raw.Control(discard)
	}
	socket := plain(nc)
	if goodbye && socket != nc {
		enough := time.AfterFunc(goodbyeTime, func() { _ = socket.Close() })
		_ = nc.Close()
		enough.Stop()
	}
	_ = socket.Close()
}
