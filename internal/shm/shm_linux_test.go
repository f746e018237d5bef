//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64

package shm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/shm"
)

const childKey = "SHM_CHILD"

// TestMain is also another process, which changes what it has mapped.
func TestMain(m *testing.M) {
	text := os.Getenv(childKey)
	if text == "" {
		os.Exit(m.Run())
	}
	var segment shm.Segment
	err := json.Unmarshal([]byte(text), &segment)
	if err == nil {
		var frames [][]byte
		if frames, err = shm.New(shm.Options{Name: "child", Root: filepath.Dir(filepath.Dir(segment.Socket))}).Open(context.Background(), &segment); err == nil {
			clear(frames[0])
		}
	}
	fmt.Print(err)
	os.Exit(0)
}

func newStore(t *testing.T, name string) *shm.Store { return newStores(t, name)[0] }

// newStores returns Stores of one run.
func newStores(t *testing.T, names ...string) (all []*shm.Store) {
	dir := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	for _, name := range names {
		s := shm.New(shm.Options{Name: name, Root: dir, Dir: func(context.Context) (string, error) { return dir, nil },
			Limit: func() int64 { return 0 }})
		t.Cleanup(s.Close)
		all = append(all, s)
	}
	return all
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

// mappings counts those of files named so.
func mappings(t *testing.T, name string) int {
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(text), "memfd:"+name)
}

// Each process finds the same bytes, aligned, and slices that end where they do.
func TestSegment(t *testing.T) {
	both := newStores(t, "segment", "other")
	s, other := both[0], both[1]
	for _, frames := range [][][]byte{nil, {nil}, random(rand.New(rand.NewPCG(1, 0)), 1, 0, 63, 64, 65, 100_000, 4096)} {
		segment, err := s.Add(t.Context(), frames)
		require.NoError(t, err)
		for _, opener := range []*shm.Store{s, other} {
			got, err := opener.Open(t.Context(), segment)
			require.NoError(t, err)
			require.Len(t, got, len(frames))
			for i, want := range frames {
				require.True(t, bytes.Equal(want, got[i]), i)
				if len(want) > 0 {
					require.Zero(t, uintptr(unsafe.Pointer(&got[i][0]))%64)
				}
				require.Equal(t, len(got[i]), cap(got[i]))
			}
		}
	}
	segment, err := s.Add(t.Context(), [][]byte{make([]byte, 10)})
	require.NoError(t, err)
	for _, wrong := range [][]int{{200}, {10, 10}, nil, {-1}} {
		_, err = other.Open(t.Context(), &shm.Segment{Socket: segment.Socket, Key: segment.Key, Sizes: wrong})
		require.Error(t, err, wrong)
	}
	_, err = other.Open(t.Context(), &shm.Segment{Socket: segment.Socket, Key: strings.Repeat("A", 26), Sizes: segment.Sizes})
	require.Error(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = other.Open(ended, segment)
	require.Error(t, err)
	_, err = s.Add(ended, [][]byte{make([]byte, 10)})
	require.ErrorIs(t, err, context.Canceled)
	got, err := other.Open(t.Context(), segment)
	require.NoError(t, err)
	s.Remove(segment)
	_, err = other.Open(t.Context(), segment)
	require.Error(t, err)
	require.Equal(t, make([]byte, 10), got[0], "it stays where it was mapped")
}

// Only sockets of the run are dialled, and only keys are written to them.
func TestForgedSegment(t *testing.T) {
	both := newStores(t, "segment", "other")
	segment, err := both[0].Add(t.Context(), [][]byte{make([]byte, 10)})
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", elsewhere)
	require.NoError(t, err)
	defer l.Close()
	run := filepath.Dir(filepath.Dir(segment.Socket))
	link := filepath.Join(run, "shared-x")
	for _, forged := range []shm.Segment{
		{Socket: elsewhere, Key: segment.Key},
		{Socket: run + "/shared-1/../" + elsewhere, Key: segment.Key},
		{Socket: link + "/../../" + filepath.Base(filepath.Dir(elsewhere)) + "/socket", Key: segment.Key},
		{Socket: segment.Socket, Key: "POST /containers HTTP/1.1\r\n"},
		{Socket: segment.Socket, Key: segment.Key + "\n"},
		{Socket: segment.Socket},
	} {
		forged.Sizes = segment.Sizes
		_, err = both[1].Open(t.Context(), &forged)
		require.EqualError(t, err, "this is no segment of the run's", "%+v", forged)
	}
}

// A process in an attacker's hands can neither crash who adopts its memory nor use up its descriptors.
func TestHostileSegment(t *testing.T) {
	dir := t.TempDir()
	opts := shm.Options{Name: "hostile", Root: dir, Dir: func(context.Context) (string, error) { return dir, nil },
		Limit: func() int64 { return 0 }, Temp: t.TempDir()}
	s, other := shm.New(opts), shm.New(opts)
	defer s.Close()
	defer other.Close()
	segment, err := s.Add(t.Context(), [][]byte{make([]byte, 64)})
	require.NoError(t, err)
	huge := math.MaxInt/2 - 63
	_, _, err = other.Adopt(t.Context(), &shm.Segment{Socket: segment.Socket, Key: segment.Key, Sizes: []int{huge, huge, huge, huge, 192}})
	require.Error(t, err, "the sum is 64")

	hostile := filepath.Join(dir, "shared-666")
	require.NoError(t, os.Mkdir(hostile, 0o700))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(hostile, "socket")})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			io.ReadFull(c, make([]byte, len(segment.Key)))
			c.WriteMsgUnix([]byte{1}, unix.UnixRights(0, 0), nil) // two
			c.Close()
		}
	}()
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	before := descriptors()
	for range 100 {
		_, _, err := other.Adopt(t.Context(), &shm.Segment{Socket: l.Addr().String(), Key: segment.Key, Sizes: segment.Sizes})
		require.Error(t, err)
	}
	require.Less(t, descriptors(), before+50)
}

// What lies on disk is not handed out where processes in containers could ask for it: they could change it.
func TestDiskIsNotForContainers(t *testing.T) {
	dir := t.TempDir()
	opts := shm.Options{Name: "disk", Root: dir, Dir: func(context.Context) (string, error) { return dir, nil },
		Limit: func() int64 { return 4096 }, Temp: t.TempDir()}
	s, other := shm.New(opts), shm.New(opts)
	defer s.Close()
	defer other.Close()
	memory, err := s.Add(t.Context(), [][]byte{make([]byte, 4096)})
	require.NoError(t, err)
	disk, err := s.Add(t.Context(), [][]byte{[]byte("on disk")})
	require.NoError(t, err)
	got, err := other.Open(t.Context(), disk)
	require.NoError(t, err)
	require.Equal(t, "on disk", string(got[0]))
	_, err = s.Directory(t.Context())
	require.NoError(t, err)
	_, err = other.Open(t.Context(), disk)
	require.Error(t, err)
	_, err = other.Open(t.Context(), memory)
	require.NoError(t, err)
	got, err = s.Open(t.Context(), disk)
	require.NoError(t, err)
	require.Equal(t, "on disk", string(got[0]))
}

// A Store adopts another one's memory while it has room, and its files on disk. Both outlive their first Store.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	opts := shm.Options{Name: "adopted", Root: dir, Dir: func(context.Context) (string, error) { return dir, nil },
		Limit: func() int64 { return 4096 }, Temp: t.TempDir()}
	first, second, third := shm.New(opts), shm.New(opts), shm.New(opts)
	defer second.Close()
	defer third.Close()
	var segments []*shm.Segment
	for _, text := range []string{"in memory", "on disk"} {
		frame := append([]byte(text), make([]byte, 4096-len(text))...)
		segment, err := first.Add(t.Context(), [][]byte{frame})
		require.NoError(t, err)
		segment, frames, err := second.Adopt(t.Context(), segment)
		require.NoError(t, err)
		require.Equal(t, frame, frames[0])
		segments = append(segments, segment)
	}
	another, err := third.Add(t.Context(), [][]byte{[]byte("another")})
	require.NoError(t, err)
	_, _, err = second.Adopt(t.Context(), another)
	require.ErrorIs(t, err, shm.ErrNone, "there is no room")
	first.Close()
	for i, text := range []string{"in memory", "on disk"} {
		frames, err := third.Open(t.Context(), segments[i])
		require.NoError(t, err)
		require.Equal(t, text, strings.TrimRight(string(frames[0]), "\x00"))
		second.Remove(segments[i])
		_, err = third.Open(t.Context(), segments[i])
		require.Error(t, err)
	}
	_, _, err = second.Adopt(t.Context(), another)
	require.NoError(t, err, "there is room again")
	_, _, err = second.Adopt(t.Context(), &shm.Segment{Socket: "/run/other/socket", Key: another.Key, Sizes: another.Sizes})
	require.Error(t, err, "of another run")
}

// What another process does to its memory changes nothing here.
func TestAnotherProcess(t *testing.T) {
	s := newStore(t, "segment")
	frames := random(rand.New(rand.NewPCG(2, 0)), 100_000)
	segment, err := s.Add(t.Context(), frames)
	require.NoError(t, err)
	got, err := s.Open(t.Context(), segment)
	require.NoError(t, err)
	got[0][0]++
	child := exec.Command(os.Args[0])
	text, err := json.Marshal(segment)
	require.NoError(t, err)
	child.Env = append(os.Environ(), childKey+"="+string(text))
	out, err := child.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "<nil>", string(out))
	got[0][0]--
	require.True(t, bytes.Equal(frames[0], got[0]))
	got, err = s.Open(t.Context(), segment)
	require.NoError(t, err)
	require.True(t, bytes.Equal(frames[0], got[0]))
}

// Slices of slices keep the memory. When nothing does, it goes, and is as any other.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	limit, s := debug.SetMemoryLimit(-1), newStore(t, "collected")
	r := rand.New(rand.NewPCG(3, 0))
	type part struct{ got, want []byte }
	var parts []part
	for round := range 100 {
		frames := random(r, 10_000+r.IntN(200_000), r.IntN(100_000))
		segment, err := s.Add(t.Context(), frames)
		require.NoError(t, err)
		got, err := s.Open(t.Context(), segment)
		require.NoError(t, err)
		s.Remove(segment)
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

// Where the collector runs for the limit alone, what nothing refers to goes all the same.
func TestDeadMappingsWithoutCollections(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	s := newStore(t, "dead")
	frames := [][]byte{make([]byte, 16<<20)}
	for range 100 {
		segment, err := s.Add(t.Context(), frames)
		require.NoError(t, err)
		got, err := s.Open(t.Context(), segment)
		require.NoError(t, err)
		require.Zero(t, got[0][1])
		s.Remove(segment)
	}
	for begun := time.Now(); mappings(t, "dead") > 40; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begun), time.Minute)
	}
}

// There are only so many mappings, and descriptors, since a process needs others; the rest is refused.
func TestManySegments(t *testing.T) {
	var files unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	less := files
	less.Cur = 1000
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &less))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &files)) }()
	s := newStore(t, "many")
	var segment *shm.Segment
	for i := 0; ; i++ {
		next, err := s.Add(t.Context(), [][]byte{make([]byte, 4096)})
		if err != nil {
			require.ErrorIs(t, err, shm.ErrNone)
			require.Equal(t, 250, i)
			break
		}
		segment = next
	}
	var held [][][]byte
	for {
		got, err := s.Open(t.Context(), segment)
		if err != nil {
			require.ErrorIs(t, err, shm.ErrNone)
			break
		}
		held = append(held, got)
		require.LessOrEqual(t, len(held), 8192)
	}
	require.Greater(t, len(held), 8000)
	require.NoError(t, exec.Command("/bin/true").Run())
	runtime.KeepAlive(held)
}

// The end of a Store waits for nobody who asks.
func TestCloseWhileSomebodyAsks(t *testing.T) {
	s := newStore(t, "asked")
	segment, err := s.Add(t.Context(), [][]byte{make([]byte, 10)})
	require.NoError(t, err)
	c, err := net.Dial("unix", segment.Socket)
	require.NoError(t, err)
	defer c.Close()
	other, err := net.Dial("unix", segment.Socket)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Write(make([]byte, 26)) // a key that there is not
	require.NoError(t, err)
	_, err = other.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF) // so c was accepted before
	begun := time.Now()
	s.Close()
	require.Less(t, time.Since(begun), 5*time.Second) // of 10 s
}

// A limit for memory is not for what is shared.
func TestMemoryLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	s := newStore(t, "limit")
	segment, err := s.Add(t.Context(), [][]byte{make([]byte, 256<<20)})
	require.NoError(t, err)
	got, err := s.Open(t.Context(), segment)
	require.NoError(t, err)
	require.Greater(t, debug.SetMemoryLimit(-1), int64(300<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_ = bytes.Clone(got[0][:10_000])
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.NumGC-before.NumGC, uint32(20))

	debug.SetMemoryLimit(512 << 20) // the program's own word
	runtime.KeepAlive(got)
	got = nil
	s.Remove(segment)
	for begun := time.Now(); mappings(t, "limit") > 0; {
		require.Less(t, time.Since(begun), time.Minute)
		runtime.GC()
	}
	require.Equal(t, int64(512<<20), debug.SetMemoryLimit(-1))
}
