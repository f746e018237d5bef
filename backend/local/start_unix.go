//go:build unix && !linux

package local

import "os"

// selfPath is the running executable.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// start runs a program. Without a parent-death signal it ends when it reads
// the end of its parent's socket.
func start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

func released() {}
