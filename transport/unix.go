package transport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// socketName is what the socket of ListenUnix is called in its directory.
const socketName = "socket"

// maxUnixPath is what fits a socket address everywhere.
const maxUnixPath = 103

// ListenUnix listens on a unix socket in a new directory below dir that only
// this user can enter; an empty dir means the system's place for temporary
// files. On Linux, processes of other users are refused besides. Close removes
// the directory. A path that is too long for a socket is an error, except that
// an empty dir then means /tmp. The socket gets its name once it takes connections:
// when somebody has removed it before that, as left by a dead process, or the new
// directory, the error is os.ErrNotExist.
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

// renamed listens at a socket that has another name than it was made with.
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
