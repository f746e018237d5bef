//go:build unix

package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock has no other process open the file until this one closes it, or ends.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrOpen
	case err != nil:
		return fmt.Errorf("its file system has no locks, which keep two programs apart; use another one: %w", err)
	}
	return nil
}
