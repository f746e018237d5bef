package job_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/job"
)

func TestLaunches(t *testing.T) {
	t.Parallel()
	var l job.Launches
	no, undone := errors.New("no"), 0
	undo := func() { undone++ }
	require.NoError(t, l.Do(t.Context(), func() error { return nil }, undo))
	require.Zero(t, undone)
	require.Equal(t, no, l.Do(t.Context(), func() error { return no }, undo))
	require.Equal(t, 1, undone, "before the error is told")

	ctx, cancel := context.WithCancel(t.Context())
	made := make(chan error)
	for _, outcome := range []error{nil, no} {
		begun := make(chan struct{})
		launch := func() error { close(begun); return <-made }
		go func() { <-begun; cancel() }()
		require.ErrorIs(t, l.Do(ctx, launch, undo), context.Canceled)
		require.ErrorIs(t, l.Wait(ctx), context.Canceled, "it is under way")
		before := undone
		made <- outcome
		require.NoError(t, l.Wait(t.Context()))
		require.Equal(t, before+1, undone)
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}
