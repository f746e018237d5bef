package transport

import "time"

// Tick is one beat of the process's pulse, as c sees it.
func Tick(c *Conn, counts bool) { c.tick(counts) }

// OnTime reports whether a tick counts.
func OnTime(since, interval time.Duration) bool { return onTime(since, interval) }
