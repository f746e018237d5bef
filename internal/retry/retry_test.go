package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/retry"
)

// Pauses grow up to the longest, differ, and begin anew after a success.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, other := retry.Pauses{Longest: 100 * time.Millisecond}, retry.Pauses{Longest: 100 * time.Millisecond}
		last := func(p *retry.Pauses) time.Duration {
			begun := time.Now()
			require.True(t, p.Wait(t.Context()))
			return time.Since(begun)
		}
		differs := false
		for range 3 {
			for _, longest := range []time.Duration{40, 80, 100, 100, 100} {
				longest *= time.Millisecond
				pause := last(&p)
				assert.Greater(t, pause, longest/2)
				assert.LessOrEqual(t, pause, longest)
				differs = differs || pause != last(&other)
			}
			p.Reset()
			other.Reset()
		}
		require.True(t, differs)
	})
}

func TestPausesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		p, begun := retry.Pauses{Longest: time.Second}, time.Now()
		require.False(t, p.Wait(ctx))
		require.Equal(t, time.Millisecond, time.Since(begun))
	})
}
