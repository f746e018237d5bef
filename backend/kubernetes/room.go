package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// nodesTimeout bounds asking which nodes there are.
const nodesTimeout = 3 * time.Second

// tooLarge says, in words, what the largest node has when none can hold what
// is asked for, "" when one can, or when this process may not ask.
func (c *cluster) tooLarge(requests corev1.ResourceList) string {
	if len(requests) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodesTimeout)
	defer cancel()
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return ""
	}
	largest, enough := kube.Largest(nodes, requests)
	if enough {
		return ""
	}
	return largest
}
