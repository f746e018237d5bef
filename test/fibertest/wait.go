//go:build unix

package fibertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience is how long a test waits for something that should take no time. It
// ends what hangs, on a machine that is busy with other things, too.
const Patience = 3 * time.Minute

// Within is a context of the test that ends after d.
func Within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Soon is one that ends what hangs.
func Soon(t testing.TB) context.Context { t.Helper(); return Within(t, Patience) }

// Eventually polls until cond is true, and leaves what cond looks at the
// processor for longer than looking takes.
func Eventually(t testing.TB, d time.Duration, cond func() bool, what string, args ...any) {
	t.Helper()
	for begun := time.Now(); ; {
		look := time.Now()
		if cond() {
			return
		}
		if time.Since(begun) > d {
			require.FailNow(t, "not within "+d.String(), append([]any{what}, args...)...)
		}
		time.Sleep(max(5*time.Millisecond, 2*time.Since(look)))
	}
}
