package transport

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"

	"github.com/fiber-go/fiber/internal/self"
)

// heartbeat is the part of a connection that ticks.
type heartbeat struct {
	last   time.Time // of the ticks
	silent int       // consecutive ticks without a byte

	mu    sync.Mutex
	timer *time.Timer // runs the next tick; nil before the first start and after stop
}

// start has c tick until stop. The ticks come one after another.
func (h *heartbeat) start(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	interval := c.opts.HeartbeatInterval
	if interval < 0 || c.Err() != nil {
		return // if it has ended already, stop will not be called again
	}
	h.last = time.Now()
	h.timer = self.AfterFunc(interval, func() {
		now := time.Now()
		counts := onTime(now.Sub(h.last), interval)
		h.last = now
		c.tick(counts)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.timer != nil {
			h.timer.Reset(interval)
		}
	})
}

func (h *heartbeat) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

// onTime reports whether a tick may count as silence. A late tick means that
// this process was stopped or starved, not that the peer has gone.
func onTime(since, interval time.Duration) bool { return since <= interval+interval/2 }

// tick sends a heartbeat if nothing else was sent since the last one, and counts
// the peer's silence. Silence counts only while a Recv is blocked in the socket
// with nothing to read: otherwise bytes may have come that were not read yet. While
// Room blocks instead, nobody reads here: the peer lives if the socket takes
// something, that is, if the peer reads.
func (c *Conn) tick(counts bool) {
	c.ping()
	if c.opts.HeartbeatTimeout < 0 {
		return
	}
	switch {
	case c.r.heard.Swap(false):
		c.beat.silent = 0
	case counts && (c.held.Load() || c.r.waiting.Load() && !pending(c.nc)):
		c.beat.silent++
	}
	if time.Duration(c.beat.silent)*c.opts.HeartbeatInterval >= c.opts.HeartbeatTimeout {
		c.finish(ErrSilent)
	}
}

func (c *Conn) ping() {
	w := c.w
	w.mu.Lock()
	quiet := !c.spoke && w.err == nil && w.out.bytes == 0
	c.spoke = false
	if quiet {
		_ = c.z.SendCmd(zmq4.CmdPing, []byte{0, 0}) // no TTL: the peer judges by its own clock
	}
	w.kick(false)
}

// maxPongs bounds the answers queued for a peer that sends PINGs and never
// reads.
const maxPongs = 16

// command handles a command that came after the handshake, on Recv's goroutine.
// A PING is answered with a PONG that repeats its context.
func (c *Conn) command(body []byte) error {
	if len(body) == 0 || len(body) < 1+int(body[0]) {
		return fmt.Errorf("%w: command without a name", ErrProtocol)
	}
	name, rest := string(body[1:1+body[0]]), body[1+body[0]:]
	if name != zmq4.CmdPing {
		return c.lentCommand(name, rest)
	}
	const ttl, context = 2, 16
	if len(rest) < ttl || len(rest) > ttl+context {
		return fmt.Errorf("%w: PING of %d bytes", ErrProtocol, len(rest))
	}
	w := c.w
	w.mu.Lock()
	if w.out.bytes == 0 {
		c.pongs = 0
	}
	if c.pongs == maxPongs || w.err != nil {
		w.mu.Unlock()
		return nil
	}
	c.pongs++
	c.spoke = c.spoke || c.opts.HeartbeatTimeout < 0 // an end that need not hear, only be heard, leaves the pings to the other
	_ = c.z.SendCmd(zmq4.CmdPong, rest[ttl:])
	w.kick(false)
	return nil
}
