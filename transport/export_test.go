package transport

import "time"

// Tick is one tick of c's heartbeat.
func Tick(c *Conn, counts bool) { c.tick(counts) }

// Held reports whether a Room of c blocks.
func Held(c *Conn) bool { return c.held.Load() }

// Heard reports whether the peer was heard since the last tick.
func Heard(c *Conn) bool { return c.r.heard.Load() }

// OnTime reports whether a tick counts.
func OnTime(since, interval time.Duration) bool { return onTime(since, interval) }

// Waiting returns how many connections are neither accepted nor closed.
func (l *Listener) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inFlight)
}

// Lent returns how far what was sent reaches in the memory that both ends have mapped.
func (c *Conn) Lent() uint64 {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.arena.end
}
