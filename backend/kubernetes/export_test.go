package kubernetes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
)

// PodOf returns the pod that a backend makes for a job, from an image and from
// what the pod that this process is in passes on.
func PodOf(cfg config.Config, self *corev1.Pod, image, path string, spec backend.JobSpec) (*corev1.Pod, error) {
	template, err := kube.Template(cfg.PodTemplate)
	if err != nil {
		return nil, err
	}
	b := New(cfg)
	img := prepared{name: image}
	if path != "" {
		img.command = []string{path}
	}
	client := &kube.Client{Namespace: "team"}
	claims, err := kube.ParseClaims(cfg.KubernetesVolumes)
	return b.pod(&cluster{Client: client, self: self, template: template, claims: claims}, img, "environment", spec), err
}

// ImageOf returns the image of the pod that this process is in.
func ImageOf(self *corev1.Pod) string { return ownImage(self) }
