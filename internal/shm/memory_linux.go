package shm

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// piece is how much is copied between two looks at a context.
const piece = 64 << 20

// write returns a file of this machine's memory that holds frames, each aligned, and that nobody can change any more.
func write(ctx context.Context, name string, frames [][]byte) (f *os.File, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f = os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	at := int64(0)
	for _, frame := range frames {
		for part := range slices.Chunk(frame, piece) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if _, err := f.WriteAt(part, at); err != nil {
				return nil, err
			}
			at += int64(len(part))
		}
		at = aligned(at)
	}
	if err := f.Truncate(at); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return f, nil
}

// sealed has every seal: a file that became shorter would end the processes that have mapped it.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// mapFrames returns the frames of such a file, which have these lengths. The file may be closed then.
func mapFrames(f *os.File, lengths []int) (frames [][]byte, err error) {
	size := int64(0)
	for _, n := range lengths {
		if n < 0 {
			return nil, fmt.Errorf("a frame of %d bytes", n)
		}
		size = aligned(size + int64(n))
	}
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.Size() != size {
		return nil, fmt.Errorf("%d bytes instead of %d", info.Size(), size)
	}
	all := []byte{}
	if size > 0 {
		err = control(f, func(fd int) (err error) {
			if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&sealed != sealed {
				return fmt.Errorf("it is not sealed: %w", err)
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
	limited.add(int64(pages))
	first := unwritten(pages + page)
	skip := -int(uintptr(unsafe.Pointer(first))) & (page - 1)
	over := unsafe.Add(unsafe.Pointer(first), skip)
	if err := place(over, pages, unix.MAP_PRIVATE, fd); err != nil {
		limited.add(-int64(pages))
		return nil, err
	}
	runtime.SetFinalizer(first, func(first *byte) {
		if err := place(unsafe.Add(unsafe.Pointer(first), skip), pages, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1); err != nil {
			panic(fmt.Sprintf("fiber: %d bytes of shared memory can't be taken back: %v", pages, err)) // they would be something else's
		}
		limited.add(-int64(pages))
	})
	return unsafe.Slice((*byte)(over), size), nil
}

// unwritten allocates so many bytes, and returns the first. Nothing is written to them, as make would: they are to be replaced.
func unwritten(n int) *byte {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // else it has no first byte
	return unsafe.StringData(b.String())
}

// place maps pages of a file, or of this process, in the place of what is there.
func place(over unsafe.Pointer, size, flags, fd int) error {
	_, err := unix.MmapPtr(fd, 0, over, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

// limit is this process's limit for memory, which what is mapped does not count against: the collector takes it for its own.
type limit struct {
	mu     sync.Mutex
	mapped int64
	own    int64 // the limit without what is mapped
	set    int64 // with it; another limit is one that the program has set since
}

var limited limit

// none is the least limit that is as good as none.
const none = 1 << 62

func (l *limit) add(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mapped += n
	if now := debug.SetMemoryLimit(-1); now != l.set {
		l.own = now
	}
	if l.own < none {
		l.set = l.own + l.mapped
		debug.SetMemoryLimit(l.set)
	}
}
