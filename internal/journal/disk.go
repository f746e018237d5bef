package journal

import (
	"io/fs"
	"os"

	"github.com/fiber-go/fiber/internal/self"
)

// disk returns the disk that the files of this process are on.
func disk() self.Disk {
	if d := self.Of().Disk; d != nil {
		return d
	}
	return system{}
}

// system is the system's disks.
type system struct{}

func (system) OpenFile(path string, flag int, mode fs.FileMode) (self.File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Link(from, to string) error   { return os.Link(from, to) }
func (system) Remove(path string) error     { return os.Remove(path) }

func (system) SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// file is a file on one of them.
type file struct{ *os.File }
