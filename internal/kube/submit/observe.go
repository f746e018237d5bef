package submit

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// observer watches a pod and holds its latest state.
type observer struct {
	changed chan struct{} // receives after changes; has room for one
	over    chan struct{} // closed when the pod has ended, is gone, or can't be watched

	mu   sync.Mutex
	once sync.Once // closes over
	pod  *corev1.Pod
	gone bool
	err  error // why the pod can't be watched
}

func observe(ctx context.Context, c *kube.Client, pod *corev1.Pod) *observer {
	o := &observer{changed: make(chan struct{}, 1), over: make(chan struct{}), pod: pod}
	tell := func(now *corev1.Pod, gone bool) {
		if now.UID == pod.UID { // not another pod with its name
			o.set(func() { o.pod, o.gone = now, gone })
		}
	}
	last := func() []*corev1.Pod {
		pod, _, _ := o.see()
		return []*corev1.Pod{pod}
	}
	go func() {
		err := c.WatchPods(ctx, kube.PodWatch{Name: pod.Name, Tell: tell, Expected: last})
		o.set(func() { o.err = err })
	}()
	return o
}

// see returns the pod's latest state, whether it is gone, and why it can't be watched, if so.
func (o *observer) see() (pod *corev1.Pod, gone bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod, o.gone, o.err
}

func (o *observer) set(change func()) {
	o.mu.Lock()
	change()
	if o.gone || o.err != nil || kube.Judge(o.pod).Over {
		o.once.Do(func() { close(o.over) })
	}
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}
