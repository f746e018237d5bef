package config

import (
	"log/slog"
	"strings"
)

// The words that [Config.LogFile] may have instead of a path.
const (
	Stderr = "stderr"
	Stdout = "stdout"
)

// Stream reports whether a [Config.LogFile] is one of these words.
func Stream(file string) bool { return file == Stderr || file == Stdout }

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
