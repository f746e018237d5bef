package kubernetes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// nodesTimeout bounds asking which nodes there are.
const nodesTimeout = 3 * time.Second

// roomsAge is how old an answer may be that is used for another pod.
const roomsAge = 5 * time.Second

// rooms are the nodes, asked for once for many pods that wait.
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

// tooLarge says, in words, what the largest node has when none can hold what
// is asked for, "" when one can, or when this process may not ask.
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
