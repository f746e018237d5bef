package transport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxUnixPath is what fits a socket address everywhere.
const maxUnixPath = 103

// ListenUnix listens on a unix socket in a new directory below dir that only
// this user can enter; an empty dir means the system's place for temporary
// files. On Linux, processes of other users are refused besides. Close removes
// the directory. A path that is too long for a socket is an error, except that
// an empty dir then means /tmp.
func ListenUnix(dir string, cred *Credentials, opts Options) (*Listener, error) {
	private, err := privateDir(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(private, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		_ = os.RemoveAll(private)
		return nil, err
	}
	same := func(nc net.Conn) net.Conn { return nc }
	ln := newListener(l, "unix:"+path, same, cred, opts)
	ln.remove = func() error { return os.RemoveAll(private) }
	return ln, nil
}

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
	if len(private)+len("/socket") <= maxUnixPath {
		return private, nil
	}
	_ = os.Remove(private)
	if dir == "" && parent != "/tmp" {
		return os.MkdirTemp("/tmp", "fiber-")
	}
	return "", fmt.Errorf("transport: directory %s is too deep for a unix socket: at most %d bytes", parent, maxUnixPath)
}
