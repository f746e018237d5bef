package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

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

// Largest reports whether, for each of the requests, some node is large enough. For each that no node can hold, the words
// name the node with the most of it, such as "the largest node, node1, has 4 CPUs"; they are "" if enough is true.
func Largest(nodes []corev1.Node, requests corev1.ResourceList) (words string, enough bool) {
	enough = true
	for _, resource := range slices.Sorted(maps.Keys(requests)) {
		want := requests[resource]
		var most corev1.Node
		for _, n := range nodes {
			if have, top := n.Status.Allocatable[resource], most.Status.Allocatable[resource]; have.Cmp(top) > 0 {
				most = n
			}
		}
		have := most.Status.Allocatable[resource]
		if have.Cmp(want) >= 0 {
			continue
		}
		enough = false
		if words != "" {
			words += "; "
		}
		if most.Name == "" {
			words += fmt.Sprintf("no node has any %s", resource)
			continue
		}
		words += fmt.Sprintf("the largest node, %s, has %s", most.Name, amount(resource, have.AsApproximateFloat64()))
	}
	return words, enough
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
