//go:build !linux || !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64)

package shm

import "context"

// Store has nothing on this system.
type Store struct{}

// New returns a Store.
func New(Options) *Store { return nil }

// Directory returns ErrNone.
func (*Store) Directory(context.Context) (string, error) { return "", ErrNone }

// Add returns ErrNone.
func (*Store) Add(context.Context, [][]byte) (*Segment, error) { return nil, ErrNone }

// Adopt returns ErrNone.
func (*Store) Adopt(context.Context, *Segment) (*Segment, [][]byte, error) {
	return nil, nil, ErrNone
}

// Open returns ErrNone.
func (*Store) Open(context.Context, *Segment) ([][]byte, error) { return nil, ErrNone }

// Remove does nothing.
func (*Store) Remove(*Segment) {}

// Close does nothing.
func (*Store) Close() {}

// Mapped returns 0.
func Mapped() int64 { return 0 }

// Unused does nothing.
func Unused(int64) {}

// Memory returns 0.
func Memory() int64 { return 0 }
