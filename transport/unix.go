package transport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// socketName is the name of ListenUnix's socket in its directory.
const socketName = "socket"

// maxUnixPath is the longest path that fits a socket address on every platform.
const maxUnixPath = 103

// ListenUnix listens on a unix socket in a new directory below dir that only this
// user can enter; an empty dir means the system's directory for temporary files. On
// Linux, processes of other users are refused, too. Close removes the directory. If
// the path is too long for a socket, an empty dir means /tmp, and any other is an
// error. The socket gets its final name once it takes connections. If another
// process has removed the socket or the directory before that, because it took them
// for those of a dead process, the error is os.ErrNotExist.
func ListenUnix(dir string, cred *Credentials, opts Options) (*Listener, error) {
	private, err := privateDir(dir)
	if err != nil {
		return nil, err
	}
	made, path := filepath.Join(private, "new"), filepath.Join(private, socketName)
	l, err := net.Listen("unix", made)
	if err == nil {
		if err = os.Rename(made, path); err != nil {
			_ = l.Close()
		}
	}
	if err != nil {
		_ = os.RemoveAll(private)
		return nil, err
	}
	same := func(nc net.Conn) net.Conn { return nc }
	ln := newListener(renamed{l, path}, "unix:"+path, same, cred, opts)
	ln.remove = func() error { return os.RemoveAll(private) }
	return ln, nil
}

// renamed is a listener whose socket was renamed after it was made.
type renamed struct {
	net.Listener
	path string
}

func (r renamed) Addr() net.Addr { return &net.UnixAddr{Name: r.path, Net: "unix"} }

func privateDir(dir string) (string, error) {
	parent := dir
	if dir == "" {
		parent = os.TempDir()
	}
	private, err := os.MkdirTemp(parent, "fiber-")
	if err != nil {
		return "", err
	}
	if private, err = filepath.Abs(private); err != nil {
		return "", err
	}
	if len(private)+len("/"+socketName) <= maxUnixPath {
		return private, nil
	}
	_ = os.Remove(private)
	if dir == "" && parent != "/tmp" {
		return os.MkdirTemp("/tmp", "fiber-")
	}
	return "", fmt.Errorf("transport: directory %s is too deep for a unix socket: at most %d bytes", parent, maxUnixPath)
}
