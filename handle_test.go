//go:build unix

package fiber

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/tree"
)

// A container may be gone for seconds before its engine reports how it ended. An operation on an object in it waits for that
// only until its own context ends.
func TestExitStatusOfALostHome(t *testing.T) {
	t.Parallel()
	homes := &here().homes
	lost := &object.LostError{Ref: object.Ref{Endpoint: "unix:nowhere", Process: "a home"}, Err: io.EOF}
	homes.Store(lost.Ref.Endpoint, new(tree.Child)) // one that does not end
	defer homes.Delete(lost.Ref.Endpoint)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/10)
		defer cancel()
		begun := time.Now()
		err := errorOf(ctx, "the queue", lost)
		require.Equal(t, time.Second/10, time.Since(begun))
		e := (*WorkerLostError)(nil)
		require.ErrorAs(t, err, &e)
		require.Equal(t, "a home", e.Worker)
	})
}
