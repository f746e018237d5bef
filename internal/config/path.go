package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

var executablePath = kind[string]{
	name:    "path",
	allowed: always("the path of an executable file"),
	parse:   verbatim,
	check:   checkPath,
	format:  identity,
	locate: func(path, dir string) (string, error) {
		path = under(dir, path)
		return path, checkExecutable(path)
	},
}

var directory = kind[string]{
	name:    "path",
	allowed: always("the path of a directory that exists and is writable"),
	parse:   verbatim,
	check:   checkPath,
	format:  identity,
	locate: func(path, dir string) (string, error) {
		path = under(dir, path)
		return path, checkDirectory(path)
	},
}

func checkPath(path string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", errors.New("has a zero byte in it")
	}
	return path, nil
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("does not exist")
	case err != nil:
		return reason(err)
	case !info.Mode().IsRegular():
		return errors.New("is not a file")
	case !executable(info):
		return errors.New("is not executable")
	}
	return nil
}

func checkDirectory(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("does not exist")
	case err != nil:
		return reason(err)
	case !info.IsDir():
		return errors.New("is not a directory")
	case !writable(path):
		return errors.New("is not writable")
	}
	return nil
}

// reason is err without the path, which the message has already.
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
