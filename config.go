package fiber

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/fiber-go/fiber/internal/config"
)

// Config is every setting of Fiber. A field that is left zero is taken from
// the environment (FIBER_BACKEND and so on), then from the file .fiberconfig
// in the working directory, then from the defaults; docs/config.md lists all
// keys. Pass it to Main or Init.
type Config config.Config

// Switch is a setting that is on, off, or left to the next source.
type Switch = config.Switch

// The switches.
const (
	On  = config.On
	Off = config.Off
)

// ByteSize is a number of bytes; "512MiB" in text.
type ByteSize = config.ByteSize

// Sizes.
const (
	KiB = config.KiB
	MiB = config.MiB
	GiB = config.GiB
)

// configure makes the configuration of the first process and opens its log.
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

// openLog opens the log that the configuration names, for a process.
func openLog(cfg config.Config, process string) (*slog.Logger, error) {
	var w io.Writer
	switch path := config.LogPath(cfg.LogFile, process); path {
	case config.Stderr:
		w = os.Stderr
	case config.Stdout:
		w = os.Stdout
	default:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return slog.Default(), fmt.Errorf("fiber: log_file: %w", err)
		}
		w = f // open as long as the process
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: config.Level(cfg.LogLevel)})), nil
}
