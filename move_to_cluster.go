//go:build !fiber_nokubernetes

package fiber

import (
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

func init() { elsewhere = moveToCluster }

// moveToCluster runs the program in the cluster that its processes are to run in:
// pods cannot dial a machine outside of their cluster, unless the setting host says
// where they can.
func moveToCluster(c config.Config, warnings []string) (code int, gone bool) {
	if c.Backend != "kubernetes" || c.Host != "" || kube.InPod() {
		return 0, false
	}
	return submit.Main(c, warnings), true
}
