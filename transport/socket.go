package transport

import (
	"errors"
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

// control calls f with the descriptor of the socket below nc, if it has one.
func control(nc net.Conn, f func(fd uintptr)) error {
	switch s := plain(nc).(type) {
	case detached:
		return s.Control(f)
	case syscall.Conn:
		raw, err := s.SyscallConn()
		if err == nil && nonBlocking {
			return raw.Control(f)
		}
	}
	return errors.ErrUnsupported
}

// detached is a socket that is read and written outside of Go's poller.
type detached interface {
	Linger() bool
	ReadSoon(p []byte) (n int, err error)
	AwaitRoom() error
	WriteSome(bufs [][]byte) (n int, err error)
	Control(f func(fd uintptr)) error
}

// awaitByte blocks until there is something to read, without allocating a
// buffer.
func awaitByte(nc net.Conn) error {
	if s, ok := nc.(syscall.Conn); ok && nonBlocking {
		raw, err := s.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Read(readable)
	}
	return nil
}

// pending reports whether there is something to read in the socket below nc.
func pending(nc net.Conn) (yes bool) {
	err := control(nc, func(fd uintptr) { yes = readable(fd) })
	return err == nil && yes
}

// stopReading ends reads from nc after what has already arrived.
func stopReading(nc net.Conn) {
	if control(nc, shutRead) != nil {
		_ = nc.SetReadDeadline(time.Now().Add(time.Second))
	}
}

// goodbyeTime bounds how long the goodbye of a TLS connection waits for a peer
// that reads nothing.
const goodbyeTime = time.Second

// closeSocket closes nc. A TLS connection says goodbye only if everything was
// delivered: the peer can tell the difference, and a stuck peer does not delay
// the close.
//
// Unread bytes, most likely heartbeats, are read first: closing a socket with
// unread bytes would reset the connection and discard what the peer has not
// received yet.
func closeSocket(nc net.Conn, goodbye bool) {
	_ = control(nc, discard)
	socket := plain(nc)
	if goodbye && socket != nc {
		enough := time.AfterFunc(goodbyeTime, func() { _ = socket.Close() })
		_ = nc.Close()
		enough.Stop()
	}
	_ = socket.Close()
}
