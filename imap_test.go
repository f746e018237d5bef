package fiber

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
)

// A ctx that ends after all results ends the loop without an error.
func TestStreamWhoseContextEndsLate(t *testing.T) {
	t.Parallel()
	s := &stream[int, int]{}
	s.out.news.L = &s.out.mu
	s.Finish(nil, engine.Tally{})
	s.out.end(context.Canceled)
	some, err := s.out.wait()
	require.Nil(t, some)
	require.Equal(t, io.EOF, err)
}
