package fiber

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers of workers go on from pool to pool of the same name. A program that makes up names for ever has its later ones
// share a counter: no number comes twice.
func TestSerialsOfManyNames(t *testing.T) {
	t.Parallel()
	var s serialNumbers
	require.EqualValues(t, 1, s.of("a").Add(1))
	require.EqualValues(t, 2, s.of("a").Add(1))
	seen := map[string]bool{}
	for range 3 {
		for i := range 5000 {
			name := fmt.Sprint("name", i)
			worker := fmt.Sprint(name, "-", s.of(name).Add(1))
			require.False(t, seen[worker], worker)
			seen[worker] = true
		}
	}
	require.LessOrEqual(t, len(s.byName), maxSerials)
	require.EqualValues(t, 3, s.of("a").Add(1))
}
