//go:build unix

package tree

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
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

// However reasons alternate, each is logged once a minute.
func TestReasonsToWaitAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w recent
		for range 2 {
			for i := range 10 {
				require.Equal(t, i == 0, w.add("no room"))
				require.Equal(t, i == 0, w.add("no image"))
			}
			require.True(t, w.has("no room"))
			time.Sleep(recently)
			synctest.Wait()
		}
		require.True(t, w.add("no disk"))
		require.False(t, w.has("no room") || w.has("no image"), "the others are forgotten")
	})
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

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline))
	}
}

// First come, first served: a large request is not starved by small ones.
func TestGPUsAreGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGPUs([]string{"0", "1", "2"})
		held := acquired(t, g, 2)
		require.Equal(t, []string{"0", "1"}, held)
		order := make(chan int, 3)
		for _, n := range []int{3, 1, 1} {
			go func() {
				devices, err := g.acquire(context.Background(), n)
				if err == nil {
					order <- n
					g.release(devices)
				}
			}()
			synctest.Wait() // until it waits for devices
		}
		require.Empty(t, order, "a later request overtook an earlier one")
		g.release(held)
		require.Equal(t, 3, <-order)
		<-order
		<-order
		require.ElementsMatch(t, []string{"0", "1", "2"}, acquired(t, g, 3))
	})
}

func TestGPURequestsThatAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGPUs([]string{"0", "1"})
		held := acquired(t, g, 1)
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan error, 1)
		go func() { _, err := g.acquire(ctx, 2); gone <- err }()
		synctest.Wait()
		behind := make(chan []string, 1)
		go func() { d, _ := g.acquire(context.Background(), 1); behind <- d }()
		synctest.Wait()
		require.Empty(t, behind)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		other := <-behind // the next in line is served
		require.NotEqual(t, held, other)
		g.release(held)
		g.release(other)

		_, err := g.acquire(context.Background(), 3)
		var launch *backend.LaunchError
		require.ErrorAs(t, err, &launch)
		require.True(t, launch.Permanent)
		require.ErrorContains(t, err, "meta.GPU(3), and this machine has 2")
	})
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
	boot, err := takeBootstrap()
	require.NoError(t, err)
	require.Nil(t, boot)
	t.Setenv(bootstrapKey, `{"process":"p","build":"b","fd":1234}`)
	boot, err = takeBootstrap()
	require.NoError(t, err)
	require.NotNil(t, boot)
	require.Equal(t, "p", boot.Process)
	require.Equal(t, 1234, boot.FD)
	_, there := os.LookupEnv(bootstrapKey)
	require.False(t, there)

	t.Setenv(bootstrapKey, "yes")
	_, err = takeBootstrap()
	require.ErrorContains(t, err, bootstrapKey)
	require.ErrorContains(t, err, "unset it")
	_, there = os.LookupEnv(bootstrapKey)
	require.False(t, there)
}

func TestBuild(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Build())
	require.NotEqual(t, "unknown", Build())
	require.Equal(t, elfBuildID("/proc/self/exe"), Build(), "the linker's own id")
	require.Empty(t, elfBuildID(os.DevNull), "no executable")
}
