//go:build !fiber_nodocker

package fiber

import (
	"log/slog"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
)

func init() {
	backends["docker"] = func(c config.Config, _ *slog.Logger) backend.Backend { return docker.New(c) }
}
