//go:build !fiber_nokubernetes

package fiber

import (
	"log/slog"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

func init() {
	inPod = kube.InPod
	backends["kubernetes"] = func(c config.Config, log *slog.Logger) backend.Backend { return kubernetes.New(c, log) }

	// Pods cannot dial a machine outside of their cluster, unless the setting host
	// says where they can. So the program goes into the cluster.
	elsewhere = func(c config.Config, warnings []string) (code int, gone bool) {
		if c.Backend != "kubernetes" || c.Host != "" || kube.InPod() {
			return 0, false
		}
		return submit.Main(c, warnings), true
	}
}
