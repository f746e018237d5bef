package transport

import (
	"cmp"
	"time"

	"github.com/go-zeromq/zmq4"
)

// Options bound a connection. The zero value means the defaults.
type Options struct {
	// MaxMessage bounds the size in bytes of a message, sent or received, with
	// all its frames. Defaults to 1 GiB.
	MaxMessage int64
	// MaxFrames bounds the number of frames in a message. Defaults to 512.
	MaxFrames int
	// MaxQueue is how many bytes may be queued, and not yet in the socket,
	// before Send blocks. A larger message is queued when the queue is empty.
	// Defaults to 16 MiB.
	MaxQueue int64
	// HandshakeTimeout bounds everything before the first message: TLS, ZMTP and
	// authentication together. Defaults to 10 s.
	HandshakeTimeout time.Duration
	// HeartbeatInterval is the time between heartbeats. Defaults to 1 s. If
	// negative, none are sent, and silence is not noticed.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is how long a peer may be silent. Defaults to 10 s. If
	// negative, it may be silent for ever.
	HeartbeatTimeout time.Duration
	// SocketType is the ZeroMQ socket type that this end announces, such as "PAIR".
	// Defaults to DEALER, which talks to DEALER and ROUTER alike.
	SocketType string
	// Lend has large frames go through memory that both ends have mapped, if they are on one machine of Linux and the connection
	// is a unix socket. Both ends must be this package.
	Lend bool
}

func (o Options) withDefaults() Options {
	o.MaxMessage = cmp.Or(o.MaxMessage, 1<<30)
	o.MaxFrames = cmp.Or(o.MaxFrames, 512)
	o.MaxQueue = cmp.Or(o.MaxQueue, 16<<20)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 10*time.Second)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, time.Second)
	o.HeartbeatTimeout = cmp.Or(o.HeartbeatTimeout, 10*time.Second)
	o.SocketType = cmp.Or(o.SocketType, string(zmq4.Dealer))
	return o
}
