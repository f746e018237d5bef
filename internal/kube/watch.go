package kube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// PodWatch says which pods to watch, and which functions to call. At most one of them runs at a time.
type PodWatch struct {
	Labels string // selects pods by their labels,
	Name   string // or one by its name

	// Tell is called with each pod: first as it is, then whenever it has changed, and once it is gone. It must not change
	// the pod.
	Tell func(pod *corev1.Pod, gone bool)
	// Expected returns pods that the cluster has made. Those missing from a later list of all pods are gone, even if no
	// event has said so.
	Expected func() []*corev1.Pod
	// Standing, unless nil, is called whenever the watch has been opened: pods made from then on are not missed.
	Standing func()
}

// LongestPause is the longest pause before a watch or a log is opened again.
const LongestPause = 5 * time.Second

const (
	// listTimeout bounds one listing. From ten seconds on the reflector would log how long it takes, ignoring its logger.
	listTimeout = 8 * time.Second
	// refusedFor is how long a cluster that has answered before may refuse a request: an API server that has just started
	// does so until it knows all permissions.
	refusedFor = 30 * time.Second
)

// WatchPods reports what happens to pods. It blocks until ctx ends, and survives failures of the connection and of the API
// server. It returns early if the cluster has never answered, or refuses the request.
func (c *Client) WatchPods(ctx context.Context, w PodWatch) error {
	ctx, stop := context.WithCancelCause(logr.NewContext(ctx, logr.Discard())) // otherwise the reflector logs to stderr
	defer stop(nil)
	told, standing := &teller{tell: w.Tell}, false
	var refusals Refusals
	// check stops the watch if the error of a request is final.
	check := func(err error) {
		known, ok := errors.AsType[*Error](err)
		switch final := refusals.Final(err, standing); {
		case ok && (final || !c.answered.Load()):
			stop(known)
		case err != nil && !c.answered.Load():
			stop(fmt.Errorf("no cluster answers at %s: %w", c.Config.Host, err))
		}
	}
	source := listed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			if opts.Continue == "" { // the first page
				told.expected = w.Expected()
			}
			opts.ResourceVersion = "" // the API server's cache may lack a pod that was just made
			pods, err := list(ctx, c, c.Namespace, "pods", w.selected(opts), new(corev1.PodList))
			check(err)
			return pods, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (events watch.Interface, err error) {
			opts = w.selected(opts)
			opts.Watch = true
			err = c.call(ctx, "watch", "pods", func(context.Context) (err error) { // the context of call would end the watch
				events, err = c.REST.Get().Namespace(c.Namespace).Resource("pods").VersionedParams(&opts, Parameters()).Watch(ctx)
				return err
			})
			check(err)
			if err == nil {
				standing = true
				if w.Standing != nil {
					w.Standing()
				}
			}
			return events, err
		},
	}}
	again := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 1, Cap: LongestPause / 2, Steps: math.MaxInt}
	cache.NewReflectorWithOptions(source, new(corev1.Pod), told, cache.ReflectorOptions{Name: "pods", Backoff: &again}).RunWithContext(ctx)
	return context.Cause(ctx)
}

// listed makes a reflector list the pods first, and then watch them. Otherwise the reflector would open one stream for both,
// in which nothing bounds the wait for the end of the list.
type listed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by client-go to choose between the two.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

func (w PodWatch) selected(opts metav1.ListOptions) metav1.ListOptions {
	opts.LabelSelector = w.Labels
	if w.Name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.Name).String()
	}
	return opts
}

// teller is the store of a reflector. It keeps nothing, and reports everything.
type teller struct {
	tell     func(*corev1.Pod, bool)
	expected []*corev1.Pod // as of before the listing
}

func (t *teller) Add(pod any) error {
	t.tell(pod.(*corev1.Pod), false)
	return nil
}

func (t *teller) Update(pod any) error { return t.Add(pod) }

func (t *teller) Delete(pod any) error {
	t.tell(pod.(*corev1.Pod), true)
	return nil
}

// Replace is called with all pods of a list.
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

// Refusals tells a permanent refusal of a request from that of an API server that has just started.
type Refusals struct{ since time.Time }

// Final reports whether err, the last answer, is a permanent refusal. The request may have been granted before.
func (r *Refusals) Final(err error, granted bool) bool {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		r.since = time.Time{}
		return false
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	return !granted || time.Since(r.since) > refusedFor
}
