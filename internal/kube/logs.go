package kube

import (
	"context"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Logs opens what a container of a pod has written and, where opts.Follow says so, will write.
func (c *Client) Logs(ctx context.Context, pod string, opts corev1.PodLogOptions) (io.ReadCloser, error) {
	r, err := c.REST.Get().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&opts, parameters()).Stream(ctx)
	if err != nil {
		return nil, c.Explain(err, "get", "pods/log")
	}
	return r, nil
}

// NoLogsYet reports whether err says that a container has not started, which it may have done all the same.
func NoLogsYet(err error) bool {
	return apierrors.IsBadRequest(err) && (strings.Contains(err.Error(), "waiting to start") ||
		strings.Contains(err.Error(), "is not available") || strings.Contains(err.Error(), "does not have a host assigned"))
}
