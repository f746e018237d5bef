package output_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/output"
)

// However much a job writes, its log keeps the end of it, and a reader that was left behind goes on there.
func TestLogOfAJobThatWritesForEver(t *testing.T) {
	t.Parallel()
	l := output.New()
	r := l.Reader(t.Context(), true)
	for i := range 1000 {
		_, _ = l.Write(bytes.Repeat([]byte{byte(i)}, 10_000))
		require.Less(t, l.Kept(), 1<<20)
	}
	l.Close()
	end, err := io.ReadAll(r)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(end), 256<<10)
	require.Less(t, len(end), 512<<10)
	last := byte(999 % 256)
	require.Equal(t, last, end[len(end)-1])
}
