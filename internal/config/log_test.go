package config_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/internal/config"
)

func TestLevel(t *testing.T) {
	t.Parallel()
	assert.Equal(t, slog.LevelDebug, config.Level("debug"))
	assert.Equal(t, slog.LevelInfo, config.Level("info"))
	assert.Equal(t, slog.LevelWarn, config.Level("warn"))
	assert.Equal(t, slog.LevelError, config.Level("error"))
	assert.Equal(t, slog.LevelInfo, config.Level(""))
}

func TestLogPath(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "/var/log/app.log", config.LogPath("/var/log/app.log", "Process-1"))
	assert.Equal(t, "/var/log/Process-1.log", config.LogPath("/var/log/%p.log", "Process-1"))
	assert.Equal(t, "/var/log/..-..-etc-x", config.LogPath("/var/log/%p", "../../etc/x"))
}
