//go:build linux

package objects_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// sharedFiles counts the files with shared values that this process has open, in memory and on disk.
func sharedFiles(t *testing.T) (memory, disk int) {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		switch to, _ := os.Readlink("/proc/self/fd/" + e.Name()); {
		case strings.HasPrefix(to, "/memfd:fiber-"):
			memory++
		case strings.HasPrefix(to, os.TempDir()+"/fiber-"):
			require.Contains(t, to, " (deleted)", "it has no name")
			disk++
		}
	}
	return memory, disk
}

// Values for which there is no room in memory lie on disk, and are as good.
func TestSharedValuesOnDisk(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_SHARE_MEMORY=4MiB") {
		return
	}
	pool := fibertest.NewPool(t, 1)
	const size = 250_000 // 2 MB, so that two fit
	var values []*fiber.Shared[[]float64]
	look := func() {
		for _, s := range values {
			got, err := fiber.Apply(fibertest.Soon(t), pool, total, s)
			require.NoError(t, err)
			require.Equal(t, float64(size)*(size-1)/2, got)
		}
	}
	for i := range 4 {
		values = append(values, share(t, ascending(size)))
		memory, disk := sharedFiles(t)
		require.Equal(t, []int{min(i+1, 2), max(i-1, 0)}, []int{memory, disk})
	}
	look()
	here, err := values[3].Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, ascending(size), here)
	values[0].Close()
	values[3].Close()
	values = append(values[1:3], share(t, ascending(size)))
	memory, disk := sharedFiles(t)
	require.Equal(t, []int{2, 1}, []int{memory, disk})
	look()
	require.Equal(t, ascending(size), here, "it stays where it was mapped")
}

// Where there is no room at all, the error says how much there is.
func TestSharedValueWithoutRoom(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_SHARE_MEMORY=1MiB", "TMPDIR=/dev/shm") {
		return
	}
	s := share(t, make([]byte, 1_000_000))
	_, err := fiber.Share(t.Context(), make([]byte, 200_000))
	require.ErrorContains(t, err, "fiber: the shared value: its 2000")
	require.ErrorContains(t, err, "of 1048576 bytes (share_memory), nor on disk: /dev/shm (TMPDIR) is in memory, too")
	share(t, make([]byte, 1000))
	s.Close()
	share(t, make([]byte, 200_000))
}

// A process keeps what has come to it as messages, up to a limit: what it used longest ago goes first, and is fetched again.
func TestSharedValuesThatAreKept(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_SHARE_MEMORY=1MiB") {
		return
	}
	pool := fibertest.NewPool(t, 1)
	decoded := func(s *fiber.Shared[weighty]) int {
		got, err := fiber.Apply(fibertest.Soon(t), pool, lift, lifting{s, 0})
		require.NoError(t, err)
		require.Equal(t, 50_000, got.Size)
		return got.Decoded
	}
	first := share(t, newWeighty(50_000))
	require.Equal(t, 1, decoded(first))
	var values []*fiber.Shared[weighty]
	for i := range 40 { // 20 of them fit
		values = append(values, share(t, newWeighty(50_000)))
		require.Equal(t, 2+i, decoded(values[i]))
		require.Equal(t, 2+i, decoded(first), "it was used just now")
	}
	for i := 21; i < 40; i++ {
		require.Equal(t, 41, decoded(values[i]))
	}
	require.Equal(t, 42, decoded(values[0]))
	require.Equal(t, 43, decoded(first), "it was used longest ago")
}

// Stats shows how much of shared values a worker has, whether it sees them or has copies.
func TestStatsOfSharedValues(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	shown := func(least, most int64) {
		t.Helper()
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			w := pool.Stats().Processes
			return len(w) == 1 && w[0].Shared >= least && w[0].Shared <= most
		}, "the worker says how much it has")
	}
	large := share(t, ascending(2<<20))
	_, err := fiber.Apply(fibertest.Soon(t), pool, total, large)
	require.NoError(t, err)
	shown(16<<20, 17<<20)
	for range 50 {
		_, err := fiber.Apply(fibertest.Soon(t), pool, lift, lifting{share(t, newWeighty(50_000)), 0})
		require.NoError(t, err)
	}
	shown(18<<20, 20<<20)
}
