package kubernetes

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	b := New(cfg, slog.New(slog.DiscardHandler))
	img := prepared{name: image}
	if path != "" {
		img.command = []string{path}
	}
	client := &kube.Client{Namespace: "team"}
	claims, err := kube.ParseClaims(cfg.KubernetesVolumes)
	return b.pod(&cluster{Client: client, self: self, template: template, claims: claims}, img, "environment", "", spec), err
}

// JobOf returns the job of a pod.
func JobOf(client *kube.Client, pod *corev1.Pod) backend.Job {
	return &job{backend: New(config.Config{}, slog.New(slog.DiscardHandler)), Job: kube.NewJob(pod, kube.Options{Client: client})}
}

// ImageOf returns the image of the pod that this process is in.
func ImageOf(self *corev1.Pod) string { return ownImage(self) }

// BackendWith returns a backend that has made a secret and watches its pods, and
// the jobs of two pods.
func BackendWith(client *kube.Client, log *slog.Logger) (b *Backend, jobs [2]*job) {
	b = New(config.Config{}, log)
	b.cluster.Make(context.Background(), func() (*cluster, error) { return &cluster{Client: client}, nil })
	b.secrets.made["environment"] = true
	b.watch.stop = func() {}
	for i, name := range []string{"pod-0", "pod-1"} {
		jobs[i] = &job{backend: b, Job: kube.NewJob(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}}, kube.Options{Client: client})}
		b.watch.jobs.Store(name, jobs[i])
	}
	return b, jobs
}
