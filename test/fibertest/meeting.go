//go:build unix

package fibertest

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// Meeting is a barrier for processes, and how often they meet.
type Meeting struct {
	Barrier *fiber.Barrier
	File    string
	Times   int
	Stay    bool
}

// Meet notes each time that it comes, and returns its indices.
var Meet = fiber.Register("meet", func(ctx context.Context, m Meeting) ([]int, error) {
	if m.Stay {
		_, err := m.Barrier.Waiting(ctx)
		if err == nil {
			err = (Marking{File: m.File, Line: "here"}).Append()
		}
		<-ctx.Done()
		runtime.KeepAlive(m)
		return nil, err
	}
	var indices []int
	for i := range m.Times {
		if err := (Marking{File: m.File, Line: strconv.Itoa(i)}).Append(); err != nil {
			return nil, err
		}
		index, err := m.Barrier.Wait(ctx)
		if err != nil {
			return nil, err
		}
		indices = append(indices, index)
	}
	return indices, nil
})

// Together has n tasks of a pool meet, which they do only when all of them run
// at once.
func Together(t testing.TB, pool *fiber.Pool, n int) {
	t.Helper()
	m, ctx := NewManager(t), Soon(t)
	in := Meeting{Barrier: Sure(fiber.NewBarrier(ctx, m, n))(t), File: TempFile(t), Times: 1}
	_, err := fiber.Map(ctx, pool, Meet, slices.Repeat([]Meeting{in}, n))
	require.NoError(t, err, "%d tasks never run at once: %+v", n, pool.Stats())
}
