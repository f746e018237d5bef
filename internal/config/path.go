package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
)

// existing returns the form of the path of what exists and has a fitting mode.
func existing(fits func(fs.FileMode) bool) form {
	return func(path, dir string) (string, bool) {
		path = under(dir, path)
		info, err := os.Stat(path)
		return path, err == nil && fits(info.Mode())
	}
}

// executable looks at the mode alone: the program may be for another machine.
func executable(mode fs.FileMode) bool { return mode.IsRegular() && mode.Perm()&0o111 != 0 }

func writable(path, dir string) (string, bool) {
	path = under(dir, path)
	return path, mayWrite(path) == nil
}

// hint returns what helps if a directory cannot be written, "" for nothing.
func (s setting) hint(value reflect.Value) string {
	if s.field.Tag.Get("kind") != "directory" || !errors.Is(mayWrite(value.String()), syscall.EROFS) {
		return ""
	}
	return "; its file system is read-only: in a pod, mount an emptyDir there"
}

// logFile is the form of log_file: a word, or the path of a file that there may be later.
func logFile(s, dir string) (string, bool) {
	if word := strings.ToLower(s); word == Stderr || word == Stdout {
		return word, true
	}
	path, ok := outputFile(s, dir)
	_, inDir := existing(fs.FileMode.IsDir)(filepath.Dir(path), "")
	return path, ok && inDir && !strings.Contains(filepath.Dir(s), "%p")
}

// outputFile is the path of a file that is to be written, here or where the program goes.
func outputFile(s, dir string) (string, bool) {
	path := under(dir, s)
	_, isDir := existing(fs.FileMode.IsDir)(path, "")
	return path, !isDir
}

func under(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}
