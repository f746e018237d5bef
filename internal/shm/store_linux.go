//go:build amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64

package shm

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/lock"
)

// Store has what this process shares; nil has nothing.
type Store struct {
	opts Options

	opened lock.Once[string] // the path of the socket, "" for none

	mu       sync.Mutex
	closed   bool
	foreign  bool // processes in containers see the socket
	listener *net.UnixListener
	conns    map[*net.UnixConn]bool
	files    map[string]file // by key
	used     int64           // bytes of the files that are in memory
	asked    sync.WaitGroup
}

// file holds the frames of a segment.
type file struct {
	*os.File
	size int64 // in memory
}

// New returns a Store.
func New(opts Options) *Store {
	return &Store{opts: opts, files: map[string]file{}, conns: map[*net.UnixConn]bool{}}
}

// Directory returns the directory with the socket. A process in a container that sees it at the same path can Open what is in
// memory in the Store, and not what lies on disk, which it could change.
func (s *Store) Directory(ctx context.Context) (string, error) {
	if s == nil {
		return "", ErrNone
	}
	s.mu.Lock()
	s.foreign = true
	s.mu.Unlock()
	socket, err := s.opened.Make(ctx, func() (*string, error) { return s.open(ctx) })
	if err != nil || *socket == "" {
		return "", err
	}
	return filepath.Dir(*socket), nil
}

// Add copies frames into memory that is shared until Remove or Close, or, if the Store has too much already, into a file without
// a name. The error is ErrNone, a *FullError, the ctx's, or the system's.
func (s *Store) Add(ctx context.Context, frames [][]byte) (*Segment, error) {
	if s == nil || s.full() {
		return nil, ErrNone
	}
	socket, err := s.opened.Make(ctx, func() (*string, error) { return s.open(ctx) })
	if err != nil {
		return nil, err
	}
	segment := &Segment{Socket: *socket, Key: rand.Text()}
	size := int64(0)
	for _, frame := range frames {
		segment.Sizes = append(segment.Sizes, len(frame))
		size = aligned(size + int64(len(frame)))
	}
	var f file
	if s.reserve(size) {
		f.size = size
		f.File, err = inMemory(ctx, s.opts.Name, frames)
	} else {
		f.File, err = s.onDisk(ctx, size, frames)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used -= f.size
		return nil, err
	}
	if err := s.add(segment.Key, f); err != nil {
		return nil, err
	}
	return segment, nil
}

// reserve says that there is room in memory for so many bytes, which are then counted.
func (s *Store) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.opts.Limit(); limit > 0 && size > limit-s.used {
		return false
	}
	s.used += size
	return true
}

// full reports whether the Store has a quarter of the files that this process may open: the rest is for others.
func (s *Store) full() bool {
	var most unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err != nil || uint64(len(s.files)) >= most.Cur/4
}

// open opens the socket and returns its path.
func (s *Store) open(ctx context.Context) (*string, error) {
	for {
		dir, err := s.opts.Dir(ctx)
		if err != nil || dir == "" {
			return &dir, err
		}
		path, l, err := listen(dir)
		if errors.Is(err, os.ErrNotExist) { // the directory was removed
			continue
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			_ = l.Close()
			return nil, errors.Join(net.ErrClosed, os.RemoveAll(filepath.Dir(path)))
		}
		s.listener = l
		s.asked.Go(func() { s.accept(l) })
		return &path, nil
	}
}

// listen listens on a socket in a new directory. Whoever gets as far as that may connect: a container's user may be another one.
func listen(dir string) (path string, l *net.UnixListener, err error) {
	own, err := os.MkdirTemp(dir, socketDirs)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(own, socketName)
	l, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err == nil {
		if err = errors.Join(os.Chmod(own, 0o711), os.Chmod(path, 0o666)); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		_ = os.RemoveAll(own)
	}
	return path, l, err
}

// askTime is how long the exchange with a process may take.
const askTime = 10 * time.Second

func (s *Store) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // too many descriptors: others will be closed
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		s.conns[c] = true
		s.asked.Go(func() {
			_ = s.answer(c) // who asked sees that nothing comes
			_ = c.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
		})
		if s.closed {
			_ = c.Close()
		}
		s.mu.Unlock()
	}
}

// answer sends the descriptor of the memory whose key is asked for.
func (s *Store) answer(c *net.UnixConn) error {
	if err := c.SetDeadline(time.Now().Add(askTime)); err != nil {
		return err
	}
	key := make([]byte, len(rand.Text()))
	if _, err := io.ReadFull(c, key); err != nil {
		return err
	}
	s.mu.Lock()
	f := s.files[string(key)]
	withheld := s.foreign && f.size == 0
	s.mu.Unlock()
	if f.File == nil || withheld {
		return os.ErrNotExist
	}
	return control(f.File, func(fd int) error {
		_, _, err := c.WriteMsgUnix([]byte{1}, unix.UnixRights(fd), nil)
		return err
	})
}

// Open maps the frames of a segment, this Store's or another's. An error says that they cannot be had in this way.
func (s *Store) Open(ctx context.Context, segment *Segment) ([][]byte, error) {
	if s == nil {
		return nil, ErrNone
	}
	s.mu.Lock()
	f := s.files[segment.Key].File
	s.mu.Unlock()
	if f == nil {
		if !s.may(segment) {
			return nil, errNoSegment
		}
		var err error
		if f, err = fetch(ctx, segment); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	return mapFrames(f, segment.Sizes)
}

// Adopt makes memory that another Store of this machine has one of this Store's, too, and maps its frames. There must be room for
// it, as for what Add copies.
func (s *Store) Adopt(ctx context.Context, segment *Segment) (_ *Segment, frames [][]byte, err error) {
	if s == nil || s.full() || !s.may(segment) {
		return nil, nil, ErrNone
	}
	socket, err := s.opened.Make(ctx, func() (*string, error) { return s.open(ctx) })
	if err != nil {
		return nil, nil, err
	}
	var f file
	if f.File, err = fetch(ctx, segment); err != nil {
		return nil, nil, err
	}
	own := &Segment{Socket: *socket, Key: rand.Text(), Sizes: segment.Sizes}
	if frames, err = mapFrames(f.File, own.Sizes); err == nil && inRAM(f.File) {
		size := int64(0)
		for _, n := range own.Sizes {
			size = aligned(size + int64(n))
		}
		if s.reserve(size) {
			f.size = size
		} else {
			err = ErrNone
		}
	}
	if err == nil {
		err = s.add(own.Key, f)
	} else {
		_ = f.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	return own, frames, nil
}

// add has a file shared, unless the Store is closed: then it closes the file.
func (s *Store) add(key string, f file) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.used -= f.size
		_ = f.Close()
		return net.ErrClosed
	}
	s.files[key] = f
	return nil
}

// may reports whether a segment can be that of a Store of this run.
func (s *Store) may(segment *Segment) bool {
	dir, below := strings.CutPrefix(segment.Socket, filepath.Join(s.opts.Root, socketDirs))
	dir, socket := strings.CutSuffix(dir, "/"+socketName)
	return below && socket && !strings.ContainsAny(dir, "/.") && keys.MatchString(segment.Key)
}

// keys matches what rand.Text returns.
var keys = regexp.MustCompile(`^[A-Z2-7]{26}$`)

var errNoSegment = errors.New("this is no segment of the run's")

// Where the sockets are below Options.Root.
const (
	socketDirs = "shared-" // and a number
	socketName = "socket"
)

// fetch gets the descriptor of another process's memory.
func fetch(ctx context.Context, segment *Segment) (*os.File, error) {
	nc, err := (&net.Dialer{Timeout: askTime}).DialContext(ctx, "unix", segment.Socket)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	c := nc.(*net.UnixConn)
	if err := c.SetDeadline(time.Now().Add(askTime)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, segment.Key); err != nil {
		return nil, err
	}
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errNoDescriptor, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, errors.Join(errNoDescriptor, err)
	}
	return os.NewFile(uintptr(fds[0]), segment.Key), nil
}

var errNoDescriptor = errors.New("no descriptor has come")

// Remove shares a segment of this Store no longer. Who has mapped it keeps it.
func (s *Store) Remove(segment *Segment) {
	s.mu.Lock()
	f := s.files[segment.Key]
	delete(s.files, segment.Key)
	s.used -= f.size
	s.mu.Unlock()
	if f.File != nil {
		_ = f.Close()
		Unused(f.size)
	}
}

// Close shares nothing any longer.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	files, l := s.files, s.listener
	s.files = nil
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	for _, f := range files {
		_ = f.Close()
	}
	if l != nil {
		path := l.Addr().String()
		_ = l.Close()
		_ = os.RemoveAll(filepath.Dir(path))
		s.asked.Wait()
	}
}

// control calls do with the descriptor of an open file, which is not closed meanwhile.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}
