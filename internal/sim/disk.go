package sim

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// disk is a disk that all machines of a run mount. A process that ends loses nothing of what it has written. A machine that
// fails does: some of what it has not synced is lost, or torn.
type disk struct {
	random *rand.Rand

	mu    sync.Mutex
	names map[string]*file // as processes see them
	sure  map[string]*file // as the disk has them
	named []naming         // what has happened to them since, in its order
	full  bool
	fails int // so many times Sync fails
}

// file is a file of the disk.
type file struct {
	now, sure []byte // as processes see it, and as the disk has it
	since     []change
	locked    *opened
}

// naming changes the names of files.
type naming struct {
	by *Process
	do func(names map[string]*file)
}

// change is a write, or, if text is nil, a new size.
type change struct {
	by   *Process
	at   int64
	text []byte
	lost bool // Sync has failed, and will not try it again
}

// syncTime is how long a Sync takes at most.
const syncTime = 20 * time.Millisecond

func newDisk(plan Plan) *disk {
	return &disk{random: plan.random(4), names: map[string]*file{}, sure: map[string]*file{}}
}

func (c change) apply(text []byte) []byte {
	if n := c.at + int64(len(c.text)); c.text == nil || n > int64(len(text)) {
		text = append(text[:min(n, int64(len(text)))], make([]byte, max(0, n-int64(len(text))))...)
	}
	copy(text[c.at:], c.text)
	return text
}

// fullFor has the disk be full for a while.
func (d *disk) fullFor(t time.Duration, over <-chan struct{}) {
	set := func(full bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.full = full
	}
	set(true)
	go func() {
		select {
		case <-time.After(t):
		case <-over:
		}
		set(false)
	}()
}

// lose loses some of what processes have not synced.
func (d *disk) lose(by func(*Process) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := false
	for _, n := range d.named {
		if lost = lost || by(n.by) && d.random.IntN(2) == 0; !lost || !by(n.by) {
			n.do(d.sure)
		}
	}
	var files []*file
	for _, names := range []map[string]*file{d.names, d.sure} {
		for _, path := range slices.Sorted(maps.Keys(names)) {
			files = append(files, names[path])
		}
	}
	d.named, d.names = nil, maps.Clone(d.sure)
	for _, f := range files {
		if !slices.ContainsFunc(f.since, func(c change) bool { return by(c.by) }) {
			continue
		}
		for _, c := range f.since {
			switch n := d.random.IntN(3); {
			case !by(c.by) || n == 2:
			case n == 1 && c.text != nil:
				c.text = c.text[:d.random.IntN(len(c.text)+1)]
			default:
				c.lost = true
			}
			if !c.lost {
				f.sure = c.apply(f.sure)
			}
		}
		f.now, f.since = bytes.Clone(f.sure), nil
	}
}

// mounted is the disk as a process sees it.
type mounted struct {
	*disk
	by *Process
}

func (d mounted) OpenFile(path string, flag int, _ fs.FileMode) (self.File, error) {
	if err := d.dead("open", path); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[path]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case f == nil:
		f = new(file)
		d.name(func(names map[string]*file) { names[path] = f })
	case flag&os.O_TRUNC != 0:
		f.change(change{by: d.by})
	}
	return &opened{disk: d, path: path, file: f}, nil
}

// dead returns an error if the process has ended, whose goroutines may not know yet.
func (d mounted) dead(op, path string) error {
	if d.by.Alive() {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: fs.ErrClosed}
}

// name does something to the names of files; mu is held.
func (d mounted) name(do func(names map[string]*file)) {
	do(d.names)
	d.named = append(d.named, naming{d.by, do})
}

func (d mounted) Rename(from, to string) error {
	if err := d.dead("rename", from); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.name(func(names map[string]*file) {
		if f := names[from]; f != nil {
			names[to] = f
		}
		delete(names, from)
	})
	return nil
}

func (d mounted) Link(from, to string) error {
	if err := d.dead("link", from); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[from] == nil || d.names[to] != nil {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	d.name(func(names map[string]*file) {
		if f := names[from]; f != nil {
			names[to] = f
		}
	})
	return nil
}

func (d mounted) Remove(path string) error {
	if err := d.dead("remove", path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name(func(names map[string]*file) { delete(names, path) })
	return nil
}

func (d mounted) SyncDir(path string) error {
	if err := d.dead("sync", path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.named {
		n.do(d.sure)
	}
	d.named = nil
	return nil
}

// opened is an open file.
type opened struct {
	disk mounted
	path string
	file *file
}

func (f *file) change(c change) {
	f.now, f.since = c.apply(f.now), append(f.since, c)
}

func (o *opened) Name() string { return o.path }

func (o *opened) Stat() (fs.FileInfo, error) {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	return stat{filepath.Base(o.path), int64(len(o.file.now))}, nil
}

func (o *opened) ReadAt(b []byte, at int64) (int, error) {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	return bytes.NewReader(o.file.now).ReadAt(b, at)
}

func (o *opened) WriteAt(b []byte, at int64) (n int, err error) {
	if err := o.disk.dead("write", o.path); err != nil {
		return 0, err
	}
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	if n = len(b); o.disk.full {
		n, err = o.disk.random.IntN(n+1), &fs.PathError{Op: "write", Path: o.path, Err: syscall.ENOSPC}
	}
	o.file.change(change{by: o.disk.by, at: at, text: append([]byte{}, b[:n]...)})
	return n, err
}

func (o *opened) Truncate(size int64) error {
	if err := o.disk.dead("truncate", o.path); err != nil {
		return err
	}
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	o.file.change(change{by: o.disk.by, at: size})
	return nil
}

func (o *opened) Sync() error {
	d, f := o.disk, o.file
	d.mu.Lock()
	n, takes := len(f.since), time.Duration(d.random.Int64N(int64(syncTime)))
	d.mu.Unlock()
	time.Sleep(takes)
	if err := d.dead("sync", o.path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, len(f.since))
	if d.fails > 0 {
		d.fails--
		for i := range f.since[:n] {
			f.since[i].lost = d.random.IntN(2) == 0
		}
		return &fs.PathError{Op: "sync", Path: o.path, Err: syscall.EIO}
	}
	var left []change
	for i, c := range f.since {
		if i < n && !c.lost {
			f.sure = c.apply(f.sure)
		} else {
			left = append(left, c)
		}
	}
	f.since = left
	return nil
}

func (o *opened) Lock() error {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	if by := o.file.locked; by != nil && by.disk.by.Alive() {
		return syscall.EWOULDBLOCK
	}
	o.file.locked = o
	return nil
}

func (o *opened) Close() error {
	o.disk.mu.Lock()
	defer o.disk.mu.Unlock()
	if o.file.locked == o {
		o.file.locked = nil
	}
	return nil
}

// stat describes a file.
type stat struct {
	name string
	size int64
}

func (s stat) Name() string     { return s.name }
func (s stat) Size() int64      { return s.size }
func (stat) Mode() fs.FileMode  { return 0o644 }
func (stat) ModTime() time.Time { return time.Now() }
func (stat) IsDir() bool        { return false }
func (stat) Sys() any           { return nil }
