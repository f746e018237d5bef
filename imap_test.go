package fiber

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A ctx that ends after all results ends the loop without an error.
func TestStreamWhoseContextEndsLate(t *testing.T) {
	t.Parallel()
	s := &stream[int, int]{}
	s.arrived.L = &s.mu
	s.Finish(nil)
	s.fail(context.Canceled)
	some, err := s.next()
	require.Nil(t, some)
	require.NoError(t, err)
}
