package job_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/job"
)

func TestFinish(t *testing.T) {
	t.Parallel()
	life, no := job.New(), errors.New("no")
	require.ErrorIs(t, life.Finish(t.Context(), func() error { return no }), no)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, life.Finish(ctx, func() error { cancel(); return nil }), context.Canceled)
	require.NoError(t, life.Finish(t.Context(), func() error { go life.End(job.Exited(137), nil); return nil }))
	require.NoError(t, life.Finish(t.Context(), func() error { return no }), "it has ended")
}
