//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64

package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onDisk returns a file without a name that holds frames, open for reading.
func (s *Store) onDisk(ctx context.Context, size int64, frames [][]byte) (*os.File, error) {
	f, err := s.written(ctx, size, frames)
	if err == nil || ctx.Err() != nil {
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, &FullError{Size: size, Used: s.used, Limit: s.opts.Limit(), Why: err.Error()}
}

func (s *Store) written(ctx context.Context, size int64, frames [][]byte) (*os.File, error) {
	if err := hasRoom(s.opts.Temp, size); err != nil {
		return nil, err
	}
	w, err := os.CreateTemp(s.opts.Temp, s.opts.Name+"-")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r, err := os.Open(w.Name())
	err = errors.Join(err, os.Remove(w.Name()))
	if err == nil {
		err = write(ctx, w, frames)
	}
	if err != nil {
		if r != nil {
			_ = r.Close()
		}
		return nil, err
	}
	return r, nil
}

// hasRoom returns an error unless a directory is on a disk that has room for so many bytes.
func hasRoom(dir string, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s (TMPDIR) is in memory, too", dir)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < size {
		return fmt.Errorf("%s (TMPDIR) has %d bytes left", dir, free)
	}
	return nil
}

// Memory returns how many bytes of memory this machine has, or the container that this process is in.
func Memory() int64 {
	var info unix.Sysinfo_t
	most := int64(0)
	if unix.Sysinfo(&info) == nil {
		most = int64(info.Totalram) * int64(info.Unit)
	}
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // of the second version, of the first
		text, err := os.ReadFile("/sys/fs/cgroup/" + file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // else it says "max"
			most = min(most, limit)
		}
	}
	return most
}
