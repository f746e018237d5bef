package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// existing returns a function that makes a path absolute and checks that the
// file there exists and fits.
func existing(fits func(path string, info fs.FileInfo) error) func(path, dir string) (string, error) {
	return func(path, dir string) (string, error) {
		path = under(dir, path)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "", errors.New("does not exist")
		case err != nil:
			return "", reason(err)
		}
		return path, fits(path, info)
	}
}

func fitsExecutable(_ string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("is not a file")
	case !executable(info):
		return errors.New("is not executable")
	}
	return nil
}

func fitsFile(_ string, info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("is a directory")
	}
	return nil
}

func fitsDirectory(path string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return errors.New("is not a directory")
	case !writable(path):
		return errors.New("is not writable")
	}
	return nil
}

// reason returns err without the path, which the message has already.
func reason(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("can't be used: %w", err)
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
