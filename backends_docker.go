//go:build !fiber_nodocker

package fiber

import (
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
)

func init() {
	backends["docker"] = func(c config.Config) backend.Backend { return docker.New(c) }
}
