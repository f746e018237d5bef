package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Make creates an object, which must have a name, and returns it as the cluster has made it. Make only reads the object, so
// other goroutines may read it at the same time. If the answer to the first try was lost, the second try finds the object and
// returns it.
func Make[T runtime.Object](ctx context.Context, c *Client, resource, name string, object T) (made T, err error) {
	tries := 0
	err = c.call(ctx, "create", resource, func(ctx context.Context) error {
		tries++
		made = object.DeepCopyObject().(T) // the client writes to what it sends, and to what it reads
		err := of(c.REST.Post(), c.Namespace, resource).Body(made).Do(ctx).Into(made)
		if tries > 1 && apierrors.IsAlreadyExists(err) {
			if resource == "secrets" { // reading them takes a permission that Fiber does not need
				return nil
			}
			return of(c.REST.Get(), c.Namespace, resource).Name(name).Do(ctx).Into(made)
		}
		return err
	})
	return made, err
}

// Acceptable returns the error with which the cluster would refuse to make a pod now.
func (c *Client) Acceptable(ctx context.Context, pod *corev1.Pod) error {
	return c.call(ctx, "create", "pods", func(ctx context.Context) error {
		return c.REST.Post().Namespace(c.Namespace).Resource("pods").Param("dryRun", metav1.DryRunAll).Body(pod.DeepCopy()).Do(ctx).Error()
	})
}

// KillGrace is, in seconds, the shortest grace after which the node itself reports that the process has ended; the node makes
// it two seconds.
const KillGrace = 1

// Delete deletes an object: with a UID, this one and no other with its name. The grace is how many seconds the processes of a
// pod have to end after a SIGTERM; a negative one stands for the pod's own. What the object owns, the cluster deletes later.
// Delete succeeds if the object is gone.
func (c *Client) Delete(ctx context.Context, resource string, object metav1.Object, grace int64) error {
	opts, uid := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, object.GetUID() // otherwise a Job leaves its pods
	if uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if grace >= 0 {
		opts.GracePeriodSeconds = &grace
	}
	return c.call(ctx, "delete", resource, func(ctx context.Context) error {
		err := of(c.REST.Delete(), cmp.Or(object.GetNamespace(), c.Namespace), resource).Name(object.GetName()).Body(opts).Do(ctx).Error()
		if apierrors.IsNotFound(err) || uid != "" && apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// DeleteAll deletes the objects that a label selector selects, without grace.
func (c *Client) DeleteAll(ctx context.Context, resource, selector string) error {
	return c.call(ctx, "deletecollection", resource, func(ctx context.Context) error {
		return c.REST.Delete().Namespace(c.Namespace).Resource(resource).
			VersionedParams(&metav1.ListOptions{LabelSelector: selector}, Parameters()).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: new(int64)}).Do(ctx).Error()
	})
}

// Pod gets a pod.
func (c *Client) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return get(ctx, c, "pods", name, new(corev1.Pod))
}

// Pods lists the pods that a label selector selects, in the client's namespace or in all.
func (c *Client) Pods(ctx context.Context, selector string, all bool) (*corev1.PodList, error) {
	return list(ctx, c, c.scope(all), "pods", metav1.ListOptions{LabelSelector: selector}, new(corev1.PodList))
}

// PodEvents lists the cluster's events about a pod.
func (c *Client) PodEvents(ctx context.Context, name string) ([]corev1.Event, error) {
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String()}
	events, err := list(ctx, c, c.Namespace, "events", opts, new(corev1.EventList))
	return events.Items, err
}

// Secrets lists the secrets that a label selector selects.
func (c *Client) Secrets(ctx context.Context, selector string) ([]corev1.Secret, error) {
	secrets, err := list(ctx, c, c.Namespace, "secrets", metav1.ListOptions{LabelSelector: selector}, new(corev1.SecretList))
	return secrets.Items, err
}

// Claim gets a PersistentVolumeClaim.
func (c *Client) Claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	return get(ctx, c, "persistentvolumeclaims", name, new(corev1.PersistentVolumeClaim))
}

// Job gets a Job.
func (c *Client) Job(ctx context.Context, name string) (*batchv1.Job, error) {
	return get(ctx, c, "jobs", name, new(batchv1.Job))
}

// Jobs lists the Jobs that a label selector selects, in the client's namespace or in all.
func (c *Client) Jobs(ctx context.Context, selector string, all bool) ([]batchv1.Job, error) {
	jobs, err := list(ctx, c, c.scope(all), "jobs", metav1.ListOptions{LabelSelector: selector}, new(batchv1.JobList))
	return jobs.Items, err
}

// Missing returns an error if the namespace does not exist. In such a namespace, lists of objects are empty.
func (c *Client) Missing(ctx context.Context) error {
	err := c.REST.Get().Resource("namespaces").Name(c.Namespace).Do(ctx).Error()
	if !apierrors.IsNotFound(err) {
		return nil // not every user may ask
	}
	return c.Explain(err, "get", "namespaces")
}

// Now returns the time by the clock of the API server, which dates all objects. This machine's clock may differ. Every user
// may ask, since even a refusal has a date.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	var date string
	err := c.call(ctx, "get", "the time", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, c.REST.Get().AbsPath("/version").URL().String(), nil)
		if err != nil {
			return err
		}
		answer, err := c.REST.Client.Do(request)
		if err != nil {
			return err
		}
		date = answer.Header.Get("Date")
		return answer.Body.Close()
	})
	if err != nil {
		return time.Time{}, err
	}
	now, err := http.ParseTime(date)
	if err != nil {
		return now, fmt.Errorf("the cluster at %s does not say what time it is: %w", c.Config.Host, err)
	}
	return now, nil
}

// Allowed reports whether this user has a permission in the client's namespace, or in the cluster for nodes.
func (c *Client) Allowed(ctx context.Context, verb, resource string) (yes bool, err error) {
	name, sub, _ := strings.Cut(resource, "/")
	attributes := map[string]string{"namespace": c.Namespace, "verb": verb, "group": groups[name].Group, "resource": name, "subresource": sub}
	if name == "nodes" {
		delete(attributes, "namespace")
	}
	question, err := json.Marshal(map[string]any{"spec": map[string]any{"resourceAttributes": attributes}})
	if err != nil {
		return false, err
	}
	var review struct{ Status struct{ Allowed bool } }
	err = c.call(ctx, "create", "selfsubjectaccessreviews", func(ctx context.Context) error {
		text, err := c.REST.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
			SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(question).Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &review)
	})
	return review.Status.Allowed, err
}

// ServiceAccount gets a service account.
func (c *Client) ServiceAccount(ctx context.Context, name string) (*corev1.ServiceAccount, error) {
	return get(ctx, c, "serviceaccounts", name, new(corev1.ServiceAccount))
}

// Nodes lists the nodes. Not every user may.
func (c *Client) Nodes(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := list(ctx, c, "", "nodes", metav1.ListOptions{}, new(corev1.NodeList))
	return nodes.Items, err
}

// groups are the API groups of the resources that are not in the core group.
var groups = map[string]schema.GroupVersion{"jobs": batchv1.SchemeGroupVersion, "leases": coordinationv1.SchemeGroupVersion}

// scope returns the client's namespace, or that of a request for all.
func (c *Client) scope(all bool) string {
	if all {
		return ""
	}
	return c.Namespace
}

// of returns a request for a resource of a namespace, or of the cluster if that is "".
func of(r *rest.Request, namespace, resource string) *rest.Request {
	if group, ok := groups[resource]; ok {
		r = r.AbsPath("/apis", group.Group, group.Version)
	}
	return r.NamespaceIfScoped(namespace, namespace != "").Resource(resource)
}

func get[T runtime.Object](ctx context.Context, c *Client, resource, name string, into T) (T, error) {
	err := c.call(ctx, "get", resource, func(ctx context.Context) error {
		return of(c.REST.Get(), c.Namespace, resource).Name(name).Do(ctx).Into(into)
	})
	return into, err
}

func list[T runtime.Object](ctx context.Context, c *Client, namespace, resource string, opts metav1.ListOptions, into T) (T, error) {
	err := c.call(ctx, "list", resource, func(ctx context.Context) error {
		return of(c.REST.Get(), namespace, resource).VersionedParams(&opts, Parameters()).Do(ctx).Into(into)
	})
	return into, err
}
