package shm

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Write returns a file of this machine's memory that holds frames, each aligned, and that nobody can change any more.
func Write(name string, frames [][]byte) (f *os.File, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f = os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			f.Close()
			f = nil
		}
	}()
	at := int64(0)
	for _, frame := range frames {
		if _, err := f.WriteAt(frame, at); err != nil {
			return f, err
		}
		at = aligned(at + int64(len(frame)))
	}
	if err := f.Truncate(at); err != nil {
		return f, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	return f, os.NewSyscallError("fcntl", err)
}

func aligned(n int64) int64 { return (n + Align - 1) / Align * Align }

// Map returns the frames of such a file, which have these lengths. The file may be closed then.
//
// Go's collector looks after the memory: it is allocated as any other, and the file is mapped over it. Its finalizer maps memory of
// this process over it again, before it becomes something else.
func Map(f *os.File, lengths []int) (frames [][]byte, err error) {
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
		if all, err = mapped(int(f.Fd()), int(size)); err != nil {
			return nil, err
		}
	}
	for at, i := 0, 0; i < len(lengths); i++ {
		frames = append(frames, all[at:at+lengths[i]:at+lengths[i]])
		at = int(aligned(int64(at + lengths[i])))
	}
	return frames, nil
}

// mapped maps the first bytes of a file over memory of Go's.
func mapped(fd, size int) ([]byte, error) {
	page := os.Getpagesize()
	pages := (size + page - 1) / page * page
	limited.add(int64(pages))
	block := make([]byte, pages+page) // of its own, since it is large: the first byte begins it
	skip := -int(uintptr(unsafe.Pointer(&block[0]))) & (page - 1)
	over := unsafe.Pointer(&block[skip])
	if err := place(over, pages, unix.MAP_PRIVATE, fd); err != nil {
		limited.add(-int64(pages))
		return nil, err
	}
	runtime.SetFinalizer(&block[0], func(first *byte) {
		if err := place(unsafe.Add(unsafe.Pointer(first), skip), pages, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1); err != nil {
			panic(fmt.Sprintf("fiber: %d bytes of shared memory can't be taken back: %v", pages, err)) // they would be something else's
		}
		limited.add(-int64(pages))
	})
	return block[skip : skip+size : skip+size], nil
}

// place maps pages of a file, or of this process, in the place of what is there.
func place(over unsafe.Pointer, size, flags, fd int) error {
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(over), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, uintptr(flags|unix.MAP_FIXED), uintptr(fd), 0)
	if errno != 0 {
		return os.NewSyscallError("mmap", errno)
	}
	return nil
}

// limit is this process's limit for memory, which what is mapped does not count against: the collector takes it for its own.
type limit struct {
	mu     sync.Mutex
	mapped int64
}

var limited limit

func (l *limit) add(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := debug.SetMemoryLimit(-1) - l.mapped
	l.mapped += n
	if now > 0 && now < 1<<62 { // else there is none
		debug.SetMemoryLimit(now + l.mapped)
	}
}
