package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// PodWatch says which pods to watch, and whom to tell. Its functions are called one after the other.
type PodWatch struct {
	Labels string // selects pods by their labels,
	Name   string // or one by its name

	// Tell is called with each pod as it is at first, whenever it has changed, and once it is gone. It must not change
	// the pod.
	Tell func(pod *corev1.Pod, gone bool)
	// Expected returns pods that the cluster has made. One that is no longer there when everything is listed is gone,
	// although no event has said so.
	Expected func() []*corev1.Pod
	// Standing, unless nil, is called whenever the watch has been opened: no pod that is made from then on is missed.
	Standing func()
}

const (
	// listTimeout bounds one listing. The reflector would log that it takes ten seconds, past any logger it is given.
	listTimeout = 8 * time.Second
	// refusedFor is how long a cluster that has answered may refuse the same request: an API server that starts does so
	// until it knows all permissions.
	refusedFor = 30 * time.Second
)

// WatchPods tells what happens to pods. It blocks until ctx ends, and goes on whatever becomes of the connection and the
// API server; it returns early if the cluster has never answered, or refuses the request.
func (c *Client) WatchPods(ctx context.Context, w PodWatch) error {
	ctx = logr.NewContext(ctx, logr.Discard()) // else the reflector logs to stderr
	standing := false
	source := listed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			opts.ResourceVersion = "" // what the API server has in its cache may lack a pod that was just made
			return list(ctx, c, c.Namespace, "pods", w.selected(opts), new(corev1.PodList))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (events watch.Interface, err error) {
			opts = w.selected(opts)
			opts.Watch = true
			err = c.call(ctx, "watch", "pods", func(context.Context) (err error) { // its context would end the watch
				events, err = c.REST.Get().Namespace(c.Namespace).Resource("pods").VersionedParams(&opts, Parameters()).Watch(ctx)
				return err
			})
			if err == nil {
				standing = true
				if w.Standing != nil {
					w.Standing()
				}
			}
			return events, err
		},
	}}
	var refusals refusals
	for pause := (Backoff{}); ; {
		told := &teller{tell: w.Tell, expected: w.Expected()}
		err := cache.NewReflectorWithOptions(source, new(corev1.Pod), told, cache.ReflectorOptions{Name: "pods"}).ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if known, ok := errors.AsType[*Error](err); ok && (!c.answered.Load() || refusals.final(err, standing)) {
			return known
		}
		if !c.answered.Load() {
			return fmt.Errorf("no cluster answers at %s: %w", c.Config.Host, err)
		}
		if told.events {
			pause.Reset()
		}
		pause.Wait(ctx, nil)
	}
}

// listed has a reflector list what is there, and then watch. Otherwise it would open one stream for both, in which nothing
// bounds the wait for the end of the list.
type listed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks for that.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

func (w PodWatch) selected(opts metav1.ListOptions) metav1.ListOptions {
	opts.LabelSelector = w.Labels
	if w.Name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.Name).String()
	}
	return opts
}

// teller is the store of a reflector. It keeps nothing, and tells everything.
type teller struct {
	tell     func(*corev1.Pod, bool)
	expected []*corev1.Pod // before everything is listed
	events   bool          // there were some since
}

func (t *teller) Add(pod any) error {
	t.events = true
	t.tell(pod.(*corev1.Pod), false)
	return nil
}

func (t *teller) Update(pod any) error { return t.Add(pod) }

func (t *teller) Delete(pod any) error {
	t.events = true
	t.tell(pod.(*corev1.Pod), true)
	return nil
}

// Replace is called with everything that is there.
func (t *teller) Replace(pods []any, _ string) error {
	there := map[types.UID]bool{}
	for _, p := range pods {
		pod := p.(*corev1.Pod)
		there[pod.UID] = true
		t.tell(pod, false)
	}
	for _, pod := range t.expected {
		if !there[pod.UID] {
			t.tell(pod, true)
		}
	}
	return nil
}

func (*teller) Resync() error { return nil }

// refusals tells a cluster that refuses a request for good from one whose API server has just started.
type refusals struct{ since time.Time }

// final reports whether err, the last answer, is the end. Granted says that the request was granted before.
func (r *refusals) final(err error, granted bool) bool {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		r.since = time.Time{}
		return false
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	return !granted || time.Since(r.since) > refusedFor
}
