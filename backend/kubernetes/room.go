package kubernetes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// nodesTimeout bounds the request for the list of nodes.
const nodesTimeout = 3 * time.Second

// roomsAge is how long one list of nodes is used.
const roomsAge = 5 * time.Second

// rooms caches the list of nodes for many pods that wait.
type rooms struct {
	mu    sync.Mutex // held while the cluster is asked
	nodes []corev1.Node
	err   error
	at    time.Time
}

func (r *rooms) get(ctx context.Context, client *kube.Client) ([]corev1.Node, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) > roomsAge {
		r.nodes, r.err = client.Nodes(ctx)
		r.at = time.Now()
	}
	return r.nodes, r.err
}

// tooLarge describes, in words, the largest node if no node can hold the
// requests. It returns "" if a node can, or if the nodes are not known because
// this process may not list them.
func (c *cluster) tooLarge(requests corev1.ResourceList) string {
	if len(requests) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), nodesTimeout)
	defer cancel()
	nodes, err := c.rooms.get(ctx, c.Client)
	if err != nil {
		return ""
	}
	largest, enough := kube.Largest(nodes, requests)
	if enough {
		return ""
	}
	return largest
}
