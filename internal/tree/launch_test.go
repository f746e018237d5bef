//go:build unix

package tree

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ours, theirs []string
		want         string
	}{
		{nil, nil, ""},
		{[]string{"a(int) int"}, []string{"a(int) int"}, ""},
		{[]string{"a(int) int", "b(int) int"}, []string{"a(int) int"}, "function b(int) int is missing there"},
		{[]string{"a(int) int"}, []string{"a(int) int", "b(int) int"}, "function b(int) int is missing here"},
		{[]string{"a(int) int", "b(int) int"}, []string{"a(int) int", "b(int) string"}, "function b(int) string there, b(int) int here"},
		{[]string{"a(int) int", "b(int) int"}, []string{"a(string) int", "b(int) string"}, "function a(string) int there, a(int) int here"},
		{[]string{"a b(int) int"}, []string{"a(int) int"}, "function a b(int) int is missing there"},
		{[]string{"ab(int) int"}, []string{"a(int) int"}, "function ab(int) int is missing there"},
	} {
		require.Equal(t, test.want, firstDifference(test.ours, test.theirs))
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	var none tail
	require.Empty(t, none.Lines())
	none.Write([]byte("\n\n"))
	require.Empty(t, none.Lines())

	var few tail
	few.Write([]byte("one\ntw"))
	few.Write([]byte("o\nhalf"))
	require.Equal(t, []string{"one", "two", "half"}, few.Lines())

	var many tail
	for i := range 10_000 {
		fmt.Fprintln(&many, "line", i)
	}
	lines := many.Lines()
	require.Len(t, lines, 20)
	require.Equal(t, "line 9980", lines[0])
	require.Equal(t, "line 9999", lines[19])
	require.LessOrEqual(t, cap(many.buf), 8*tailBytes, "all of it is kept")

	var endless tail
	for range 1000 {
		endless.Write([]byte(strings.Repeat("é", 1000)))
	}
	require.Len(t, endless.Lines(), 1)
	require.LessOrEqual(t, len(endless.Lines()[0]), 2*tailBytes+2)
	endless.Write([]byte{0xff, '\n', 'x'})
	require.Equal(t, "x", endless.Lines()[1], "invalid text does no harm")
}

func acquired(t *testing.T, g *gpus, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	devices, err := g.acquire(ctx, n)
	require.NoError(t, err)
	require.Len(t, devices, n)
	return devices
}

func (g *gpus) waiters() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline))
	}
}

// First come, first served: a large request is not starved by small ones.
func TestGPUsAreGivenInOrder(t *testing.T) {
	t.Parallel()
	g := newGPUs([]string{"0", "1", "2"})
	held := acquired(t, g, 2)
	require.Equal(t, []string{"0", "1"}, held)
	order := make(chan int, 3)
	for i, n := range []int{3, 1, 1} {
		go func() {
			devices, err := g.acquire(context.Background(), n)
			if err == nil {
				order <- n
				g.release(devices)
			}
		}()
		waitFor(t, func() bool { return g.waiters() == i+1 })
	}
	require.Empty(t, order, "a later request overtook an earlier one")
	g.release(held)
	require.Equal(t, 3, <-order)
	<-order
	<-order
	require.ElementsMatch(t, []string{"0", "1", "2"}, acquired(t, g, 3))
}

func TestGPURequestsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	g := newGPUs([]string{"0", "1"})
	held := acquired(t, g, 1)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() { _, err := g.acquire(ctx, 2); gone <- err }()
	waitFor(t, func() bool { return g.waiters() == 1 })
	behind := make(chan []string, 1)
	go func() { d, _ := g.acquire(context.Background(), 1); behind <- d }()
	waitFor(t, func() bool { return g.waiters() == 2 })
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	other := <-behind // the next in line is served
	require.NotEqual(t, held, other)
	g.release(held)
	g.release(other)

	_, err := g.acquire(context.Background(), 3)
	require.ErrorIs(t, err, ErrTooManyGPUs)
	require.ErrorContains(t, err, "meta.GPU(3), and this machine has 2")
}

// However requests end, no device is lost or handed out twice.
func TestGPUsUnderCancellation(t *testing.T) {
	t.Parallel()
	g := newGPUs([]string{"0", "1", "2", "3"})
	var mu sync.Mutex
	inUse := map[string]bool{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 500 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration((i*j)%50)*time.Microsecond)
				devices, err := g.acquire(ctx, 1+(i+j)%3)
				cancel()
				if err != nil {
					continue
				}
				mu.Lock()
				for _, d := range devices {
					if inUse[d] {
						t.Errorf("device %s is given twice", d)
					}
					inUse[d] = true
				}
				mu.Unlock()
				mu.Lock()
				for _, d := range devices {
					delete(inUse, d)
				}
				mu.Unlock()
				g.release(devices)
			}
		})
	}
	all.Wait()
	require.ElementsMatch(t, []string{"0", "1", "2", "3"}, acquired(t, g, 4))
	require.Zero(t, g.waiters())
}

func TestLocalDevices(t *testing.T) {
	for visible, want := range map[string][]string{
		"":            nil,
		"0,1":         {"0", "1"},
		" 2 , GPU-8f": {"2", "GPU-8f"},
		"-1":          nil,
		"0,-1,1":      {"0"},
	} {
		t.Setenv("CUDA_VISIBLE_DEVICES", visible)
		require.Equal(t, want, localDevices(), visible)
	}
}

func TestBootstrapIsTakenOutOfTheEnvironment(t *testing.T) {
	_, ok, err := takeBootstrap()
	require.NoError(t, err)
	require.False(t, ok)
	t.Setenv(bootstrapKey, `{"process":"p","build":"b","fd":1234}`)
	boot, ok, err := takeBootstrap()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "p", boot.Process)
	require.Equal(t, 1234, boot.FD)
	_, there := os.LookupEnv(bootstrapKey)
	require.False(t, there)

	t.Setenv(bootstrapKey, "yes")
	_, ok, err = takeBootstrap()
	require.True(t, ok)
	require.ErrorContains(t, err, bootstrapKey)
	require.ErrorContains(t, err, "unset it")
	_, there = os.LookupEnv(bootstrapKey)
	require.False(t, there)
}

func TestBuild(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Build())
	require.NotEqual(t, "unknown", Build())
	f, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, elfBuildID(f), Build(), "the linker's own id")
	require.Empty(t, elfBuildID(strings.NewReader("no executable")))
}
