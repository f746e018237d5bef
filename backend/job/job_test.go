package job_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/job"
)

func TestTheEnd(t *testing.T) {
	t.Parallel()
	l := job.New()
	given, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Wait(given)
	require.ErrorIs(t, err, context.Canceled, "it has not ended")
	status, failure := backend.ExitStatus{Code: 3}, errors.New("no")
	l.End(status, failure)
	ended, err := l.Wait(t.Context())
	require.Equal(t, status, ended)
	require.Equal(t, failure, err)
}
