package shm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/shm"
)

const childKey = "SHM_CHILD"

// TestMain is also another process, which changes what it has mapped.
func TestMain(m *testing.M) {
	if os.Getenv(childKey) == "" {
		os.Exit(m.Run())
	}
	frames, err := shm.Map(os.NewFile(3, "segment"), []int{100_000})
	if err == nil {
		clear(frames[0])
	}
	if _, err := os.NewFile(3, "segment").WriteAt([]byte("x"), 0); err == nil {
		fmt.Println("it can be written")
	}
	fmt.Print(err)
	os.Exit(0)
}

func random(r *rand.Rand, sizes ...int) (frames [][]byte) {
	for _, n := range sizes {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		frames = append(frames, b)
	}
	return frames
}

func lengths(frames [][]byte) (ns []int) {
	for _, f := range frames {
		ns = append(ns, len(f))
	}
	return ns
}

// mappings counts those of files named so.
func mappings(t *testing.T, name string) int {
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(text), "memfd:"+name)
}

func TestSegment(t *testing.T) {
	for _, frames := range [][][]byte{nil, {nil}, random(rand.New(rand.NewPCG(1, 0)), 1, 0, 63, 64, 65, 100_000, 4096)} {
		f, err := shm.Write("segment", frames)
		require.NoError(t, err)
		defer f.Close()
		got, err := shm.Map(f, lengths(frames))
		require.NoError(t, err)
		require.Len(t, got, len(frames))
		for i, want := range frames {
			require.True(t, bytes.Equal(want, got[i]), i)
			if len(want) > 0 {
				require.Zero(t, uintptr(unsafe.Pointer(&got[i][0]))%shm.Align)
			}
			require.Equal(t, len(got[i]), cap(got[i]))
		}
	}
	f, err := shm.Write("segment", [][]byte{make([]byte, 10)})
	require.NoError(t, err)
	defer f.Close()
	for _, wrong := range [][]int{{200}, {10, 10}, nil, {-1}} {
		_, err = shm.Map(f, wrong)
		require.Error(t, err, wrong)
	}
}

// What another process does to its memory changes nothing here.
func TestAnotherProcess(t *testing.T) {
	frames := random(rand.New(rand.NewPCG(2, 0)), 100_000)
	f, err := shm.Write("segment", frames)
	require.NoError(t, err)
	defer f.Close()
	got, err := shm.Map(f, []int{100_000})
	require.NoError(t, err)
	got[0][0]++
	child := exec.Command(os.Args[0])
	child.Env, child.ExtraFiles = append(os.Environ(), childKey+"=yes"), []*os.File{f}
	out, err := child.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "<nil>", string(out))
	got[0][0]--
	require.True(t, bytes.Equal(frames[0], got[0]))
}

// Slices of slices keep the memory. When nothing does, it goes, and is as any other.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	limit := debug.SetMemoryLimit(-1)
	r := rand.New(rand.NewPCG(3, 0))
	type part struct{ got, want []byte }
	var parts []part
	for round := range 300 {
		frames := random(r, 10_000+r.IntN(200_000), r.IntN(100_000))
		f, err := shm.Write("collected", frames)
		require.NoError(t, err)
		got, err := shm.Map(f, lengths(frames))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		i := r.IntN(2)
		if n := len(frames[i]); n > 10 {
			lo := r.IntN(n - 10)
			parts = append(parts, part{got[i][lo : lo+10], bytes.Clone(frames[i][lo : lo+10])})
		}
		if len(parts) > 20 {
			parts = append(parts[:0], parts[1+r.IntN(20):]...)
		}
		for range 20 { // other memory, in the place of what has gone
			b := make([]byte, 1+r.IntN(300_000))
			require.Zero(t, len(bytes.TrimLeft(b, "\x00")))
			for j := range b {
				b[j] = 0xff
			}
		}
		for _, p := range parts {
			require.Equal(t, p.want, p.got, round)
		}
	}
	parts = nil
	for begun := time.Now(); mappings(t, "collected") > 0; {
		require.Less(t, time.Since(begun), time.Minute)
		runtime.GC()
	}
	require.Equal(t, limit, debug.SetMemoryLimit(-1))
}

// A limit for memory is not for what is shared.
func TestMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	f, err := shm.Write("limit", [][]byte{make([]byte, 256<<20)})
	require.NoError(t, err)
	defer f.Close()
	got, err := shm.Map(f, []int{256 << 20})
	require.NoError(t, err)
	require.Greater(t, debug.SetMemoryLimit(-1), int64(300<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_ = bytes.Clone(got[0][:10_000])
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.NumGC-before.NumGC, uint32(20))
}
