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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/lock"
)

// Store has what this process shares; nil has nothing.
type Store struct {
	name string // of its memory, in the lists of the system
	dir  func(context.Context) (string, error)

	opened lock.Once[string] // the path of the socket

	mu       sync.Mutex
	closed   bool
	listener *net.UnixListener
	conns    map[*net.UnixConn]bool
	files    map[string]*os.File // by key
	asked    sync.WaitGroup
}

// New returns a Store. dir returns the directory for its socket, which only this user can enter; it is asked when that is needed.
// Somebody may remove the directory while it is empty.
func New(name string, dir func(context.Context) (string, error)) *Store {
	return &Store{name: name, dir: dir, files: map[string]*os.File{}, conns: map[*net.UnixConn]bool{}}
}

// Add copies frames into memory that is shared until Remove or Close. The error is ErrNone, the ctx's, or the system's.
func (s *Store) Add(ctx context.Context, frames [][]byte) (*Segment, error) {
	if s == nil || s.full() {
		return nil, ErrNone
	}
	socket, err := s.opened.Make(ctx, func() (*string, error) { return s.open(ctx) })
	if err != nil {
		return nil, err
	}
	f, err := write(ctx, s.name, frames)
	if err != nil {
		return nil, err
	}
	segment := &Segment{Socket: *socket, Key: rand.Text()}
	for _, frame := range frames {
		segment.Sizes = append(segment.Sizes, len(frame))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = f.Close()
		return nil, net.ErrClosed
	}
	s.files[segment.Key] = f
	return segment, nil
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
		dir, err := s.dir(ctx)
		if err != nil {
			return nil, err
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

// listen listens on a socket in a new directory.
func listen(dir string) (path string, l *net.UnixListener, err error) {
	private, err := os.MkdirTemp(dir, "shared-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(private, "socket")
	if l, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path}); err != nil {
		_ = os.RemoveAll(private)
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
	s.mu.Unlock()
	if f == nil {
		return os.ErrNotExist
	}
	return control(f, func(fd int) error {
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
	f := s.files[segment.Key]
	s.mu.Unlock()
	if f == nil {
		var err error
		if f, err = fetch(ctx, segment); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	return mapFrames(f, segment.Sizes)
}

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
	s.mu.Unlock()
	if f != nil {
		_ = f.Close()
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
