package output_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/output"
)

// However much a job writes, its log keeps the end of it, and a reader that was left behind goes on there.
func TestLogOfAJobThatWritesForEver(t *testing.T) {
	t.Parallel()
	l := output.New(256 << 10)
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

func TestLastLinesOfALog(t *testing.T) {
	t.Parallel()
	const kept = 8 << 10
	none := output.New(kept)
	require.Empty(t, none.Lines(20))
	none.Write([]byte("\n\n"))
	require.Empty(t, none.Lines(20))

	few := output.New(kept)
	few.Write([]byte("one\ntw"))
	few.Write([]byte("o\nhalf"))
	require.Equal(t, []string{"one", "two", "half"}, few.Lines(20))

	many := output.New(kept)
	for i := range 10_000 {
		fmt.Fprintln(many, "line", i)
	}
	lines := many.Lines(20)
	require.Len(t, lines, 20)
	require.Equal(t, "line 9980", lines[0])
	require.Equal(t, "line 9999", lines[19])
	require.LessOrEqual(t, many.Kept(), 4*kept, "all of it is kept")

	endless := output.New(kept)
	for range 1000 {
		endless.Write([]byte(strings.Repeat("é", 1000)))
	}
	require.Len(t, endless.Lines(20), 1)
	require.LessOrEqual(t, len(endless.Lines(20)[0]), 2*kept+2)
	endless.Write([]byte{0xff, '\n', 'x'})
	require.Equal(t, "x", endless.Lines(20)[1], "invalid text does no harm")
}
