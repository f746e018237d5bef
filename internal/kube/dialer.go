package kube

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes connections to the API server, and knows how many are there.
type dialer struct {
	open   atomic.Int32 // those that are being made included
	closed atomic.Bool  // the client is, and has made no request since
	late   func()       // is called when one is made for a request of before
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.open.Add(1)
	nc, err := (&net.Dialer{Timeout: tryTimeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		d.open.Add(-1)
		return nil, err
	}
	if d.closed.Load() {
		go d.late()
	}
	return &dialled{nc, sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

// dialled is a connection that its dialer counts.
type dialled struct {
	net.Conn
	closed func()
}

func (c *dialled) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
