package transport

import (
	"net"
	"syscall"
	"time"
)

// plain is the socket below nc, which may speak TLS.
func plain(nc net.Conn) net.Conn {
	for {
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = over.NetConn()
	}
}

// rawConn gives access to a plain socket's descriptor; nil for anything else.
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

// awaitByte waits until there is something to read, without a buffer for it.
func awaitByte(nc net.Conn) error {
	if raw := rawConn(nc); raw != nil {
		return raw.Read(readable)
	}
	return nil
}

// pending tells whether there is something to read in the socket below nc.
func pending(nc net.Conn) bool {
	raw := rawConn(plain(nc))
	if raw == nil {
		return false
	}
	var yes bool
	err := raw.Control(func(fd uintptr) { yes = readable(fd) })
	return err == nil && yes
}

// stopReading ends the reads from nc, now or after what is there to read.
func stopReading(nc net.Conn) {
	raw := rawConn(plain(nc))
	if raw == nil {
		_ = nc.SetReadDeadline(time.Now().Add(time.Second))
		return
	}
	_ = raw.Control(shutRead)
}

// goodbyeTime bounds how long a TLS connection says goodbye to a peer that reads
// nothing: deadlines are not for sockets outside of the poller.
const goodbyeTime = time.Second

// closeSocket closes nc. A TLS connection says goodbye only when it is closed
// with everything delivered: the peer can tell then, and a peer that is stuck
// holds nobody up.
//
// What is unread, heartbeats most likely, is read first: closing a socket over
// it would reset the connection, and take back what the peer has not got yet.
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
