package lock

// Changes wakes goroutines that wait for a change of what a mutex guards. Its methods are called with that mutex held. Whoever
// waits unlocks it, and waits for the channel of Next and whatever else may end the wait.
type Changes struct {
	next chan struct{} // nil while nobody waits
}

// Next returns a channel that is closed at the next change.
func (c *Changes) Next() <-chan struct{} {
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Tell wakes all that wait.
func (c *Changes) Tell() {
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}
