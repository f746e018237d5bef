//go:build unix

package fibertest

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sure is for what must not fail: Sure(f())(t).
func Sure[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// Distinct counts different values.
func Distinct[T comparable](values []T) int {
	seen := map[T]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen)
}

// Numbers are those from 0 on.
func Numbers(n int) []int {
	ns := make([]int, n)
	for i := range ns {
		ns[i] = i
	}
	return ns
}

// Setting returns the number in a variable of the environment, if it is set.
func Setting(t testing.TB, variable string, otherwise uint64) uint64 {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, variable)
		return n
	}
	return otherwise
}

// SlicesOf returns n times the same.
func SlicesOf[T any](v T, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// Unwilling cannot be encoded.
type Unwilling struct{}

func (Unwilling) MarshalBinary() ([]byte, error) { return nil, errors.New("not me") }

func (*Unwilling) UnmarshalBinary([]byte) error { return nil }
