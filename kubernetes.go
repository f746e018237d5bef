//go:build !fiber_nokubernetes

package fiber

import (
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
)

func init() {
	inPod = kube.InPod
	backends["kubernetes"] = func(c config.Config) (backend.Backend, error) {
		return kubernetes.New(kubernetes.Options{Namespace: c.KubernetesNamespace, Image: c.Image, BaseImage: c.BaseImage,
			Executable: c.Executable, Registry: c.Registry, RegistryInsecure: c.RegistryInsecure.Enabled(), Host: c.Host,
			GPUResource: c.KubernetesGPUResource, Volumes: c.KubernetesVolumes, Template: c.PodTemplate, Grace: c.ShutdownGrace}), nil
	}
}
