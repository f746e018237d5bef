package fiber

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/logger"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Switch is a setting that is on, off, or, when zero, left to the next source.
type Switch int8

// The values of a Switch.
const (
	Off Switch = -1
	On  Switch = 1
)

// String returns "on", "off" or "unset".
func (s Switch) String() string { return config.Switch(s).String() }

// ByteSize is a number of bytes: 512 * MiB in code, "512MiB" in text.
type ByteSize int64

// Units of ByteSize.
const (
	KiB ByteSize = 1 << (10 * (iota + 1))
	MiB
	GiB
)

// String returns the number in the largest unit that leaves a whole number.
func (s ByteSize) String() string { return config.ByteSize(s).String() }

// internal returns the configuration as the type that internal packages know, which
// has the same fields.
func (c Config) internal() (cfg config.Config) {
	from, to := reflect.ValueOf(c), reflect.ValueOf(&cfg).Elem()
	for i := range from.NumField() {
		to.Field(i).Set(from.Field(i).Convert(to.Field(i).Type()))
	}
	return cfg
}

// configure makes the configuration of the root and opens its log. The last result closes the log, unless there is an error.
func configure(code Config) (config.Config, *slog.Logger, func(patience time.Duration), error) {
	stdio.Followed() // its variable is no setting
	stdio.Returned()
	cfg, warnings, err := config.Load(code.internal(), config.Sources{})
	if err != nil {
		return cfg, nil, nil, fmt.Errorf("fiber: %w", err)
	}
	end := func(time.Duration) {}
	var log *slog.Logger
	if cfg.Logger != nil {
		root := logger.NewRoot(cfg.Logger, config.Level(cfg.LogLevel))
		log, end = root.Logger, root.Close
	} else {
		log, err = openLog(cfg, "MainProcess")
	}
	for _, w := range warnings {
		log.Warn("fiber: " + w)
	}
	return cfg, log, end, err
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
