//go:build unix

package tree

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Names are padded to the longest so far; a very long one does not push all others
// away.
func TestNames(t *testing.T) {
	t.Parallel()
	var n names
	long := strings.Repeat("n", 100)
	require.Equal(t, "a | ", n.before("a"))
	require.Equal(t, "worker-1-10 | ", n.before("worker-1-10"))
	require.Equal(t, "a           | ", n.before("a"))
	require.Equal(t, long+" | ", n.before(long))
	require.Equal(t, "a                        | ", n.before("a"))
}

// A line that does not end is passed on in pieces, the last of them when the
// process has ended.
func TestLinesWithoutEnd(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	var to bytes.Buffer
	n.forwarding.Add(1)
	l := &lines{node: n, name: "a", to: &to}
	for range 2*maxLine + 10 {
		_, err := l.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	full := "a | " + strings.Repeat("x", maxLine) + "\n"
	require.Equal(t, full+full+"a | xxxxxxxxxx\n", to.String())
}
