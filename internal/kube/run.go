package kube

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

// What the pods of a run need: made for certain and once, watched all together.

// Make creates an object, whose name must be given, and reads it back into itself. When the answer to a first try was
// lost, and the object is there at the second, that is no error: nothing is made twice.
func (c *Client) Make(ctx context.Context, resource, name string, object runtime.Object) error {
	tries := 0
	return c.call(ctx, "create", resource, func(ctx context.Context) error {
		tries++
		err := c.REST.Post().Namespace(c.Namespace).Resource(resource).Body(object).Do(ctx).Into(object)
		if tries > 1 && apierrors.IsAlreadyExists(err) {
			if resource == "secrets" { // which nobody needs to be allowed to read
				return nil
			}
			return c.REST.Get().Namespace(c.Namespace).Resource(resource).Name(name).Do(ctx).Into(object)
		}
		return err
	})
}

// Delete deletes an object, with so many seconds of grace where it is a pod. What is not there is no error.
func (c *Client) Delete(ctx context.Context, resource, name string, grace int64) error {
	return c.call(ctx, "delete", resource, func(ctx context.Context) error {
		err := c.REST.Delete().Namespace(c.Namespace).Resource(resource).Name(name).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace}).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// ListPods lists the pods that a selector selects, with the version to watch from.
func (c *Client) ListPods(ctx context.Context, selector string) (*corev1.PodList, error) {
	return list(ctx, c, c.Namespace, "pods", metav1.ListOptions{LabelSelector: selector}, new(corev1.PodList))
}

// ListSecrets lists the secrets that a selector selects.
func (c *Client) ListSecrets(ctx context.Context, selector string) (*corev1.SecretList, error) {
	return list(ctx, c, c.Namespace, "secrets", metav1.ListOptions{LabelSelector: selector}, new(corev1.SecretList))
}

// WatchPods tells what happens to the pods that a selector selects, from a version on, or with "" beginning with those
// that are there. It returns when the watch stands.
func (c *Client) WatchPods(ctx context.Context, selector, version string) (watch.Interface, error) {
	opts := metav1.ListOptions{LabelSelector: selector, ResourceVersion: version, Watch: true, AllowWatchBookmarks: true}
	w, err := c.REST.Get().Namespace(c.Namespace).Resource("pods").VersionedParams(&opts, parameters()).Watch(ctx)
	if err != nil {
		return nil, c.Explain(err, "watch", "pods")
	}
	return w, nil
}

// Final says whether the same request will be refused the next time, too.
func Final(err error) bool {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return !Transient(err) && !apierrors.IsConflict(err)
	}
	return Unreachable(err)
}

// Follow reads what a container has written, and with follow what it writes until it ends.
func (c *Client) Follow(ctx context.Context, pod, container string, follow bool) (io.ReadCloser, error) {
	return c.Logs(ctx, pod, corev1.PodLogOptions{Container: container, Follow: follow})
}

// Close closes connections that are idle. The client can be used again.
func (c *Client) Close() { utilnet.CloseIdleConnectionsFor(c.REST.Client.Transport) }
