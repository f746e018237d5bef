package submit

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fiber-go/fiber/internal/kube"
)

// observer knows a pod as it is, by a watch that is resumed for as long as it takes.
type observer struct {
	client  *kube.Client
	report  *Report
	changed chan struct{} // has room for one

	mu   sync.Mutex
	pod  *corev1.Pod
	gone bool
	err  error // why it can't be watched
}

func observe(ctx context.Context, c *kube.Client, pod *corev1.Pod, report *Report) *observer {
	o := &observer{client: c, report: report, changed: make(chan struct{}, 1), pod: pod}
	go o.run(ctx)
	return o
}

func (o *observer) see() (pod *corev1.Pod, gone bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod, o.gone, o.err
}

func (o *observer) set(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *observer) run(ctx context.Context) {
	name, uid, version := o.pod.Name, o.pod.UID, o.pod.ResourceVersion
	pause := kube.Backoff{}
	for ctx.Err() == nil {
		if w, err := o.client.WatchPod(ctx, name, version); err == nil {
			pause.Reset()
			if o.follow(ctx, w) {
				return
			}
		} else if o.final(err) {
			return
		}
		if !pause.Wait(ctx, nil) {
			return
		}
		pod, err := o.client.Pod(ctx, name)
		switch {
		case err == nil && pod.UID == uid:
			version = pod.ResourceVersion
			o.set(func() { o.pod = pod })
		case err == nil || apierrors.IsNotFound(err):
			o.set(func() { o.gone = true })
			return
		case o.final(err):
			return
		case ctx.Err() == nil:
			o.report.Status("%v; trying again", err)
		}
	}
}

// final notes an error that will not heal.
func (o *observer) final(err error) bool {
	var answer *kube.Error
	if errors.As(err, &answer) && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		o.set(func() { o.err = err })
		return true
	}
	return false
}

// follow takes what a watch says. It reports whether that was the last.
func (o *observer) follow(ctx context.Context, w watch.Interface) (last bool) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case e, ok := <-w.ResultChan():
			pod, isPod := e.Object.(*corev1.Pod)
			switch {
			case !ok || e.Type == watch.Error:
				return false
			case !isPod:
			case e.Type == watch.Deleted:
				o.set(func() { o.pod, o.gone = pod, true })
				return true
			default:
				o.set(func() { o.pod = pod })
			}
		}
	}
}
