package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// CreatePod creates a pod.
func (c *Client) CreatePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	made := pod.DeepCopy()
	return made, c.Make(ctx, "pods", pod.Name, made)
}

// Pod gets a pod.
func (c *Client) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return get(ctx, c, c.Namespace, "pods", name, new(corev1.Pod))
}

// Pods lists the pods that a selector of labels selects, of all namespaces if so.
func (c *Client) Pods(ctx context.Context, selector string, all bool) ([]corev1.Pod, error) {
	namespace := c.Namespace
	if all {
		namespace = ""
	}
	pods, err := list(ctx, c, namespace, "pods", metav1.ListOptions{LabelSelector: selector}, new(corev1.PodList))
	return pods.Items, err
}

// DeletePod deletes the pod of that name and uid; "" is any. Grace is how many seconds its processes have to end
// after a SIGTERM; less than 0 is what the pod says. A pod that is gone is no error.
func (c *Client) DeletePod(ctx context.Context, pod *corev1.Pod, grace int64) error {
	opts := &metav1.DeleteOptions{}
	if pod.UID != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	}
	if grace >= 0 {
		opts.GracePeriodSeconds = &grace
	}
	namespace := pod.Namespace
	if namespace == "" {
		namespace = c.Namespace
	}
	background := metav1.DeletePropagationBackground
	opts.PropagationPolicy = &background
	err := c.call(ctx, "delete", "pods", func(ctx context.Context) error {
		err := c.REST.Delete().Namespace(namespace).Resource("pods").Name(pod.Name).Body(opts).Do(ctx).Error()
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another one of that name
			return nil
		}
		return err
	})
	return err
}

// WatchPod watches one pod from a version on.
func (c *Client) WatchPod(ctx context.Context, name, version string) (watch.Interface, error) {
	opts := metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", name).String(),
		ResourceVersion: version, Watch: true,
	}
	w, err := c.REST.Get().Namespace(c.Namespace).Resource("pods").VersionedParams(&opts, parameters()).Watch(ctx)
	if err != nil {
		return nil, c.Explain(err, "watch", "pods")
	}
	return w, nil
}

// Nodes lists the nodes. Not everybody may.
func (c *Client) Nodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := list(ctx, c, "", "nodes", metav1.ListOptions{}, new(corev1.NodeList))
	return nodes.Items, err
}

// Claim gets a claim of a volume.
func (c *Client) Claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	return get(ctx, c, c.Namespace, "persistentvolumeclaims", name, new(corev1.PersistentVolumeClaim))
}

// ServiceAccount gets a service account.
func (c *Client) ServiceAccount(ctx context.Context, name string) (*corev1.ServiceAccount, error) {
	return get(ctx, c, c.Namespace, "serviceaccounts", name, new(corev1.ServiceAccount))
}

// PodEvents lists what the cluster has noted about a pod.
func (c *Client) PodEvents(ctx context.Context, name string) ([]corev1.Event, error) {
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String()}
	events, err := list(ctx, c, c.Namespace, "events", opts, new(corev1.EventList))
	return events.Items, err
}
