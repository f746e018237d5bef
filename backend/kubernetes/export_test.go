package kubernetes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/kube"
)

// PodOf is the pod that a backend makes for a job, of an image and of what it
// takes over from the pod that this process is in.
func PodOf(opts Options, self *corev1.Pod, image, path string, spec backend.JobSpec) (*corev1.Pod, error) {
	template, err := kube.Template(opts.Template)
	if err != nil {
		return nil, err
	}
	b := New(opts)
	img := prepared{name: image}
	if path != "" {
		img.command = []string{path}
	}
	client := &kube.Client{Namespace: "team"}
	return b.pod(&cluster{Client: client, self: self, template: template}, img, "environment", spec), nil
}

// ImageOf is the image of the pod that this process is in.
func ImageOf(self *corev1.Pod) string {
	spec, status := ownContainer(self)
	return digested(status, spec.Image)
}

// Says is what a pod's status means, in a few words.
func Says(pod *corev1.Pod, container string) string {
	st := stateOf(pod, container)
	var all []string
	add := func(is bool, word string) {
		if is {
			all = append(all, word)
		}
	}
	add(st.ran, "ran")
	add(st.pending != "", "waits: "+st.pending)
	add(st.unschedulable, "no room")
	add(st.fatal != "", "never: "+st.fatal)
	add(st.ended, "ended: "+st.status.String())
	return strings.Join(all, ", ")
}
