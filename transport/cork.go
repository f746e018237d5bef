package transport

import (
	"net"
	"sync"
)

// corkSize is the most that is held back: about what a socket takes at once.
// TLS writes a record of 16 KiB at a time.
const corkSize = 64 << 10

// corked is a connection whose writes can be held back, so that many leave with
// one system call.
type corked struct {
	net.Conn

	mu   sync.Mutex
	held *[]byte // nil unless writes are held back
}

var corkBuffers = sync.Pool{New: func() any { b := make([]byte, 0, corkSize); return &b }}

// NetConn returns the connection below.
func (c *corked) NetConn() net.Conn { return c.Conn }

// corkOf returns the corked connection below nc, or nil.
func corkOf(nc net.Conn) *corked {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
		c, _ := over.NetConn().(*corked)
		return c
	}
	return nil
}

// Cork holds back writes, up to corkSize bytes at a time, until Flush.
func (c *corked) Cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = corkBuffers.Get().(*[]byte)
	}
}

// Flush writes what was held back and ends the holding back.
func (c *corked) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	if held == nil {
		return nil
	}
	c.held = nil
	_, err := c.Conn.Write(*held)
	*held = (*held)[:0]
	corkBuffers.Put(held)
	return err
}

func (c *corked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.held == nil:
		return c.Conn.Write(p)
	case len(*c.held)+len(p) <= corkSize:
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	_, err := c.Conn.Write(*c.held)
	*c.held = append((*c.held)[:0], p...)
	return len(p), err
}
