package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/internal/kube"
)

// findSelf finds the pod that this process is in. It returns nil if no pod has
// the name in POD_NAME or, without it, the host's.
func findSelf(ctx context.Context, client *kube.Client) (*corev1.Pod, error) {
	host, _ := os.Hostname()
	name := cmp.Or(os.Getenv(kube.PodNameKey), host)
	pod, err := client.Pod(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the pod %s that this process is in: %w", name, err)
	}
	return pod, nil
}

// ownImage returns the image of a pod's program: by digest if the container's
// status has it together with the repository, without which other nodes could
// not pull it.
func ownImage(pod *corev1.Pod) string {
	image, status := kube.Main(pod).Image, kube.MainStatus(pod)
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
