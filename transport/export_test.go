package transport

import "time"

// SetMaxMessage sets the bound for messages received from now on.
func (c *Conn) SetMaxMessage(n int64) { c.r.max.Store(n) }

// Tick is one tick of c's heartbeat.
func Tick(c *Conn, counts bool) { c.tick(counts) }

// OnTime reports whether a tick counts.
func OnTime(since, interval time.Duration) bool { return onTime(since, interval) }
