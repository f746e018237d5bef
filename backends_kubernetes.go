//go:build !fiber_nokubernetes

package fiber

import (
	"log/slog"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
)

func init() {
	inPod = kube.InPod
	backends["kubernetes"] = func(c config.Config, log *slog.Logger) backend.Backend { return kubernetes.New(c, log) }
}
