package object_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/test/objecttest"
)

// As many values go into one message as fit, and at least one.
func TestFitting(t *testing.T) {
	t.Parallel()
	s := objecttest.NewRun(t).Home("Home")
	small := object.Value{First: []byte{1}}
	large := object.Value{First: make([]byte, 1<<20)}
	require.Equal(t, 3, s.Fitting([]object.Value{small, small, small}))
	require.Equal(t, 1, s.Fitting([]object.Value{large, small}))
	require.Equal(t, 2, s.Fitting([]object.Value{small, small, large}))
	require.Equal(t, 0, s.Fitting(nil))
}
