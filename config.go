package fiber

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/self"
)

// Config holds every setting of Fiber. A zero field takes its value from the
// environment (FIBER_BACKEND and so on), else from the file .fiberconfig in the
// working directory, else from the defaults. docs/config.md lists all keys.
// Pass a Config to Main or Init.
type Config config.Config

// Switch is a setting that is on, off, or, when zero, left to the next source.
type Switch = config.Switch

// The values of a Switch.
const (
	On  = config.On
	Off = config.Off
)

// ByteSize is a number of bytes, written as "512MiB" in text.
type ByteSize = config.ByteSize

// Units of ByteSize.
const (
	KiB = config.KiB
	MiB = config.MiB
	GiB = config.GiB
)

// configure makes the configuration of the root and opens its log.
func configure(code Config) (config.Config, *slog.Logger, error) {
	cfg, warnings, err := config.Load(config.Config(code), config.Sources{})
	if err != nil {
		return cfg, nil, fmt.Errorf("fiber: %w", err)
	}
	log, err := openLog(cfg, "MainProcess")
	for _, w := range warnings {
		log.Warn("fiber: " + w)
	}
	return cfg, log, err
}

// openLog opens a process's log, as the configuration says.
func openLog(cfg config.Config, process string) (*slog.Logger, error) {
	var w io.Writer
	switch path := config.LogPath(cfg.LogFile, process); path {
	case config.Stderr:
		w = self.Of().Stderr
	case config.Stdout:
		w = self.Of().Stdout
	default:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return slog.Default(), fmt.Errorf("fiber: log_file: %w", err)
		}
		w = f // open as long as the process
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: config.Level(cfg.LogLevel)})), nil
}
