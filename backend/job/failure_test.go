package job_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/backend/local"
)

func TestFailuresThatStay(t *testing.T) {
	t.Parallel()
	on, cause := local.New(), errors.New("no")
	for _, test := range []struct {
		err       error
		known     bool
		permanent bool
	}{
		{cause, false, false}, {cause, true, true}, {job.Refuse(cause), false, true}, {fmt.Errorf("once: %w", job.Refuse(cause)), false, true},
	} {
		failure := job.Failure(on, "Job", test.err, test.known)
		require.ErrorIs(t, failure, cause)
		require.Equal(t, test.permanent, failure.Permanent)
		require.Equal(t, "local", failure.Backend)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	require.Equal(t, "signal: killed, OOMKilled: used more than its 150 MiB", job.OutOfMemory(150).String())
	require.Equal(t, "signal: killed, OOMKilled: it used more memory than its node has", job.OutOfMemory(0).String())
}
