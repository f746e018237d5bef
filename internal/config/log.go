package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// The words that [Config.LogFile] may have instead of a path.
const (
	Stderr = "stderr"
	Stdout = "stdout"
)

// Level returns the slog level of a [Config.LogLevel]; Info if name is "".
func Level(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name)) // the name has been checked; "" leaves Info
	return level
}

// LogPath returns the file that the process of that name logs to: each "%p" in the file's name becomes the name of the
// process, with "-" for the characters that separate directories.
func LogPath(file, process string) string {
	return strings.ReplaceAll(file, "%p", strings.NewReplacer("/", "-", `\`, "-", "\x00", "-").Replace(process))
}

func checkLog(s string) (string, error) {
	if word := strings.ToLower(s); word == Stderr || word == Stdout {
		return word, nil
	}
	if strings.Contains(filepath.Dir(s), "%p") {
		return "", errors.New(`has "%p" in the name of a directory`)
	}
	return s, nil
}

func locateLog(path, dir string) (string, error) {
	if path == Stderr || path == Stdout {
		return path, nil
	}
	path = under(dir, path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "", errors.New("is a directory")
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("is in %s, which is not a directory", filepath.Dir(path))
	}
	return path, nil
}
