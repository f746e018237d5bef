package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Architectures counts the nodes that may run pods, by the architecture of their CPUs in Go's words.
func Architectures(nodes []corev1.Node) map[string]int {
	count := map[string]int{}
	for _, n := range nodes {
		if os := n.Status.NodeInfo.OperatingSystem; !n.Spec.Unschedulable && (os == "linux" || os == "") {
			count[n.Status.NodeInfo.Architecture]++
		}
	}
	return count
}

// largest names, for each of the requests that no node can hold, the node with the most of it, such as "the largest node,
// node1, has 4 CPUs".
func largest(nodes []corev1.Node, requests corev1.ResourceList) string {
	var words []string
	for _, resource := range slices.Sorted(maps.Keys(requests)) {
		want := requests[resource]
		var most corev1.Node
		for _, n := range nodes {
			if have, top := n.Status.Allocatable[resource], most.Status.Allocatable[resource]; have.Cmp(top) > 0 {
				most = n
			}
		}
		have := most.Status.Allocatable[resource]
		switch {
		case have.Cmp(want) >= 0:
		case most.Name == "":
			words = append(words, fmt.Sprintf("no node has any %s", resource))
		default:
			words = append(words, fmt.Sprintf("the largest node, %s, has %s", most.Name, amount(resource, have.AsApproximateFloat64())))
		}
	}
	return strings.Join(words, "; ")
}

func amount(resource corev1.ResourceName, n float64) string {
	switch resource {
	case corev1.ResourceCPU:
		return strconv.FormatFloat(n, 'g', 4, 64) + " CPUs"
	case corev1.ResourceMemory:
		return strconv.Itoa(int(n/(1<<20))) + " MiB of memory"
	}
	return strconv.FormatFloat(n, 'f', -1, 64) + " of " + string(resource)
}

// Platform returns the architecture of most nodes, and the number of nodes of each. It returns "" if this process may not
// list nodes.
func (c *Client) Platform(ctx context.Context) (arch string, have map[string]int, err error) {
	nodes, err := c.Nodes(ctx)
	if apierrors.IsForbidden(err) {
		return "", nil, nil
	}
	have = Architectures(nodes)
	for a, n := range have {
		if arch == "" || n > have[arch] || n == have[arch] && a < arch {
			arch = a
		}
	}
	return arch, have, err
}

// nodesTimeout bounds the request for the list of nodes that pods wait for.
const nodesTimeout = 3 * time.Second

// tooLarge describes, in words, the largest node if no node can hold the requests. It returns "" if a node can, or if the
// nodes are not known because this process may not list them. Many pods that wait share one request.
func (c *Client) tooLarge(requests corev1.ResourceList) string {
	list, err, _ := c.looking.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), nodesTimeout)
		defer cancel()
		return c.Nodes(ctx)
	})
	if nodes := list.([]corev1.Node); err == nil && len(nodes) > 0 {
		return largest(nodes, requests)
	}
	return ""
}
