package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/internal/kube"
)

// podNameKey is a variable that tells a pod its name where its host name does
// not, as on the host's network.
const podNameKey = "POD_NAME"

// findSelf finds the pod that this process is in, nil when it has another name
// than its host.
func findSelf(ctx context.Context, client *kube.Client) (*corev1.Pod, error) {
	host, _ := os.Hostname()
	name := cmp.Or(os.Getenv(podNameKey), host)
	pod, err := client.Pod(ctx, name)
	if apierrors.IsNotFound(errors.Unwrap(err)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the pod %s that this process is in: %w", name, err)
	}
	return pod, nil
}

// ownContainer is the container of a pod that this process is in: the one that
// the pod names as its main one, or else the first.
func ownContainer(pod *corev1.Pod) (spec *corev1.Container, status *corev1.ContainerStatus) {
	name := pod.Annotations["kubectl.kubernetes.io/default-container"]
	spec = &pod.Spec.Containers[0]
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			spec = &pod.Spec.Containers[i]
		}
	}
	return spec, statusOf(pod, spec.Name)
}

// digested is an image by its digest, where the status of a container tells
// it with the repository: other nodes can pull nothing else.
func digested(status *corev1.ContainerStatus, image string) string {
	if status == nil {
		return image
	}
	id := status.ImageID
	if _, rest, ok := strings.Cut(id, "://"); ok {
		id = rest
	}
	if strings.Contains(id, "@sha256:") {
		return id
	}
	return image
}
