//go:build unix

package journal

import "golang.org/x/sys/unix"

// Lock has no other process lock the file until this one closes it, or ends.
func (f file) Lock() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
