//go:build !fiber_nodocker

package fiber

import (
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
)

func init() {
	backends["docker"] = func(c config.Config) (backend.Backend, error) {
		return docker.New(docker.Options{Image: c.Image, BaseImage: c.BaseImage, Executable: c.Executable,
			Network: c.DockerNetwork, Volumes: c.DockerVolumes, Host: c.Host, Capabilities: c.DockerCapabilities,
			NewPrivileges: c.DockerNewPrivileges.Enabled(), PidsLimit: int64(c.DockerPidsLimit)}), nil
	}
}
