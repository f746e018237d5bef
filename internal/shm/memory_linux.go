//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64

package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// piece is how much is copied between two looks at a context.
const piece = 64 << 20

// inMemory returns a file of this machine's memory that holds frames, and that nobody can change any more.
func inMemory(ctx context.Context, name string, frames [][]byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = write(ctx, f, frames); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed)
		err = os.NewSyscallError("fcntl", err)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// write writes frames, each aligned.
func write(ctx context.Context, f *os.File, frames [][]byte) error {
	at := int64(0)
	for _, frame := range frames {
		for part := range slices.Chunk(frame, piece) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := f.WriteAt(part, at); err != nil {
				return err
			}
			at += int64(len(part))
		}
		at = aligned(at)
	}
	return f.Truncate(at)
}

// sealed has every seal: a file that became shorter would end the processes that have mapped it.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL

// lasting returns an error unless a file stays as it is: it is sealed, or a file without a name on disk, which another process of
// this user could open for writing by its descriptor, but does not.
func lasting(fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if errors.Is(err, unix.EINVAL) { // it is no memory
		var info unix.Stat_t
		if err := unix.Fstat(fd, &info); err != nil || info.Nlink > 0 {
			return errors.Join(errors.New("it has a name"), err)
		}
		return nil
	}
	if err != nil || seals&sealed != sealed {
		return errors.Join(errors.New("it is not sealed"), err)
	}
	return nil
}

// inRAM reports whether a file that lasts is memory.
func inRAM(f *os.File) bool {
	return control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		return err
	}) == nil
}

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// mapFrames returns the frames of such a file, which have these lengths. The file may be closed then.
func mapFrames(f *os.File, lengths []int) (frames [][]byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for _, n := range lengths {
		if n < 0 || int64(n) > info.Size()-size {
			return nil, fmt.Errorf("a frame of %d bytes, of %d", n, info.Size())
		}
		size = aligned(size + int64(n))
	}
	if info.Size() != size {
		return nil, fmt.Errorf("%d bytes instead of %d", info.Size(), size)
	}
	all := []byte{}
	if size > 0 {
		err = control(f, func(fd int) (err error) {
			if err := lasting(fd); err != nil {
				return err
			}
			all, err = mapped(fd, int(size))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for at, i := 0, 0; i < len(lengths); i++ {
		frames = append(frames, all[at:at+lengths[i]:at+lengths[i]])
		at = int(aligned(int64(at + lengths[i])))
	}
	return frames, nil
}

// mapped maps the first bytes of a file over memory of Go's: Go's collector looks after it. Its finalizer maps memory of this
// process over it again, before it becomes something else.
func mapped(fd, size int) ([]byte, error) {
	page := os.Getpagesize()
	pages := (size + page - 1) / page * page
	counted := int64(pages+page+runtimePage-1) / runtimePage * runtimePage // as the allocator does
	if !live.add(counted) {
		return nil, ErrNone
	}
	first := unwritten(pages + page)
	skip := -int(uintptr(unsafe.Pointer(first))) & (page - 1)
	over := unsafe.Add(unsafe.Pointer(first), skip)
	if err := place(over, pages, unix.MAP_PRIVATE, fd); err != nil {
		live.remove(counted)
		return nil, err
	}
	runtime.SetFinalizer(first, func(first *byte) {
		if err := place(unsafe.Add(unsafe.Pointer(first), skip), pages, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1); err != nil {
			panic(fmt.Sprintf("fiber: %d bytes of shared memory can't be taken back: %v", pages, err)) // they would be something else's
		}
		live.remove(counted)
	})
	return unsafe.Slice((*byte)(over), size), nil
}

// runtimePage is what Go's allocator rounds large sizes up to.
const runtimePage = 8 << 10

// unwritten allocates so many bytes, and returns the first. Nothing is written to them, as make would: they are to be replaced.
func unwritten(n int) *byte {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // else it has no first byte
	return unsafe.StringData(b.String())
}

// place maps pages of a file, or of this process, in the place of what is there.
func place(over unsafe.Pointer, size, flags, fd int) error {
	// unix.MmapPtr makes a pointer of its answer again, which the race detector's checks refuse. Other processors' systems take other arguments.
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(over), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, uintptr(flags|unix.MAP_FIXED), uintptr(fd), 0)
	if errno != 0 {
		return os.NewSyscallError("mmap", errno)
	}
	return nil
}

// mappings are those that there are.
type mappings struct {
	mu         sync.Mutex
	n          int
	bytes      int64
	due        int64 // when there are more bytes, garbage is collected
	unused     int64 // bytes of which this process has said so since then
	collecting bool
	last       time.Time // when it was collected last
	ballast    *byte     // nil for none

	own int64 // this process's limit for memory, without what is mapped
	set int64 // with it; another limit is one that the program has set since
}

var live mappings

// Mapped returns how many bytes this process has mapped.
func Mapped() int64 {
	live.mu.Lock()
	defer live.mu.Unlock()
	return live.bytes
}

const (
	// most is how many mappings there are at most. Each splits two others off, and a process has 65,530 of them, unless
	// vm.max_map_count says otherwise; without any, Go's runtime gets no memory.
	most = 8192
	// collected is how many bytes never make garbage be collected.
	collected = 256 << 20
	// unusedMax is how many bytes without a use never make garbage be collected.
	unusedMax = 64 << 20
	// fullPause is the least time between two collections because there are too many.
	fullPause = 10 * time.Second
	// ballastSize is by how much the heap seems larger, so that it may grow by as much until garbage is collected: what is mapped
	// makes it grow, but takes no memory of this process.
	ballastSize = 4 << 20
	// none is the least limit for memory that is as good as none.
	none = 1 << 62
)

// add counts a mapping, if there may be one more. Where Go's collector runs for the limit alone, mappings that nothing refers
// to would stay, since they count as memory that the limit does not mean.
func (m *mappings) add(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == most {
		if time.Since(m.last) > fullPause {
			m.collect()
		}
		return false
	}
	m.n++
	m.count(n)
	switch {
	case m.own < none: // which it would count against
		m.ballast = nil
	case m.ballast == nil:
		m.ballast = unwritten(ballastSize)
	}
	if m.bytes > max(m.due, collected) {
		m.collect()
	}
	return true
}

// Unused says that so many bytes that are mapped are not needed any more. They go at the next collection, in each process that has
// mapped them: when they have become many, there is one.
func Unused(n int64) {
	live.mu.Lock()
	defer live.mu.Unlock()
	if live.unused += n; live.unused > max(unusedMax, live.bytes/4) {
		live.collect()
	}
}

func (m *mappings) remove(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n--
	m.count(-n)
}

// count changes how much is mapped, and this process's limit for memory, which that does not count against; mu is held.
func (m *mappings) count(n int64) {
	m.bytes += n
	for now := debug.SetMemoryLimit(-1); ; {
		if now != m.set {
			m.own = now
		}
		if m.own >= none {
			return
		}
		m.set = m.own + m.bytes
		was := debug.SetMemoryLimit(m.set)
		if was == now {
			return
		}
		now, m.own = was, was // the program has set it just now
	}
}

// collect has garbage collected in the background; mu is held.
func (m *mappings) collect() {
	if m.collecting {
		return
	}
	m.collecting, m.unused = true, 0
	go func() {
		runtime.GC()
		time.Sleep(settled)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.due, m.collecting, m.last = 2*m.bytes, false, time.Now()
	}()
}

// settled is how long finalizers have until what is left counts.
const settled = 50 * time.Millisecond
