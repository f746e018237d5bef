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

// ownImage is the image of a pod's program, by its digest where the status of
// the container tells it with the repository: other nodes can pull nothing
// else.
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
