package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/logmux"
)

// RootPod is the root's pod of a program on a cluster, with the pods that it has started.
type RootPod struct {
	Pod      corev1.Pod
	Children []corev1.Pod
}

// Program returns the program's name.
func (m RootPod) Program() string { return m.Pod.Labels[LabelProgram] }

// Status returns how far the program has come, in a word or two.
func (m RootPod) Status() string {
	s := kube.Judge(&m.Pod)
	switch {
	case m.Pod.DeletionTimestamp != nil:
		return "ending"
	case s.Failed != "":
		return "failed"
	case s.Ended != nil && s.Ended.ExitCode == 0:
		return "done"
	case s.Ended != nil && s.Ended.Reason == "OOMKilled":
		return "OOMKilled"
	case s.Ended != nil:
		return fmt.Sprintf("exit code %d", s.Ended.ExitCode)
	case s.Started:
		return "running"
	case s.Unplaced():
		return "no node"
	}
	return "pending"
}

// Ended reports whether a pod is over.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || kube.Judge(p).Over // the phase changes later
}

// Found holds the pods of Fiber in a namespace.
type Found struct {
	Roots  []RootPod
	Copies []corev1.Pod // of fiber cp
	Others []corev1.Pod // children of a root that is not a pod, or whose pod is gone
}

// Find returns the pods of Fiber in the client's namespace, or in all.
func Find(ctx context.Context, c *kube.Client, all bool) (Found, error) {
	pods, err := c.Pods(ctx, kube.Managed, all)
	if err != nil {
		return Found{}, err
	}
	var f Found
	for _, p := range pods.Items {
		switch p.Labels[LabelRole] {
		case RoleRoot:
			f.Roots = append(f.Roots, RootPod{Pod: p})
		case RoleCopy:
			f.Copies = append(f.Copies, p)
		}
	}
	for _, p := range pods.Items {
		if p.Labels[LabelRole] != "" {
			continue
		}
		if n := slices.IndexFunc(f.Roots, func(r RootPod) bool { return ownedBy(&p, r.Pod.UID) }); n >= 0 {
			f.Roots[n].Children = append(f.Roots[n].Children, p)
		} else {
			f.Others = append(f.Others, p)
		}
	}
	return f, nil
}

func ownedBy(p *corev1.Pod, owner types.UID) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner })
}

// Lookup finds a pod by a name: the pod's own, the beginning of the name of exactly one root's pod, or the name of a program
// with exactly one.
func Lookup(ctx context.Context, c *kube.Client, name string) (*corev1.Pod, error) {
	pod, err := c.Pod(ctx, name)
	if err == nil {
		return pod, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	found, err := Find(ctx, c, false)
	if err != nil {
		return nil, err
	}
	var fits []*corev1.Pod
	var names []string
	for _, m := range found.Roots {
		if m.Program() == name || strings.HasPrefix(m.Pod.Name, name) {
			fits, names = append(fits, m.Pod.DeepCopy()), append(names, m.Pod.Name)
		}
	}
	switch len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		if err := c.Missing(ctx); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("there is no program %s in the namespace %s; fiber ps lists the programs", name, c.Namespace)
	}
	return nil, fmt.Errorf("%s may be any of %s: use the full name", name, strings.Join(names, ", "))
}

// Logs writes a pod's output so far and, with follow, the output until the pod ends. It ends early, without an error, when the
// reader of stdout is gone.
func Logs(ctx context.Context, c *kube.Client, pod *corev1.Pod, follow bool, stdout, stderr io.Writer, report *Report) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unread := func() { cancel(errUnread) }
	to := &logmux.Reader{Stdout: report.above(stdout, unread), Stderr: report.above(stderr, func() {})}
	out := &kube.Output{Client: c, Pod: pod, To: to.Stdout, Lost: report.lost}
	if kube.Joined(pod) {
		out.To = to
	}
	read := out.Read
	if follow {
		job := kube.NewJob(pod, kube.Options{Client: c})
		go func() { cancel(job.Watch(ctx)) }()
		read = func(ctx context.Context) error { return out.Follow(ctx, job.Stopped) }
	}
	err := read(ctx)
	to.Close()
	switch cause := context.Cause(ctx); cause {
	case nil:
		return err
	case errUnread:
		return nil
	default:
		return cause
	}
}

const (
	// goneAgain is how often an ending pod is looked at.
	goneAgain = 200 * time.Millisecond
	// silent is when a node that has not reported the end of a killed program is taken for dead. The pods of the program's
	// processes have a grace of ten seconds.
	silent = 20 * time.Second
)

// Stop ends a pod and waits until it is gone with the pods that it has started, which the cluster removes. With now its
// program is killed, and pods on nodes that do not answer are deleted by force.
func Stop(ctx context.Context, c *kube.Client, pod *corev1.Pod, now bool) error {
	grace := int64(-1)
	if now {
		grace = kube.KillGrace
	}
	begun := time.Now()
	if err := c.Delete(ctx, "pods", pod, grace); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, goneAgain, true, func(ctx context.Context) (gone bool, err error) {
		left, err := remaining(ctx, c, pod)
		if err != nil || len(left) == 0 {
			return err == nil, err
		}
		for _, p := range left {
			if now && time.Since(begun) > silent {
				err = errors.Join(err, c.Delete(ctx, "pods", &p, 0))
			}
		}
		return false, err
	})
}

// remaining lists a pod, if it is still there, or else what is left of the pods that it has started.
func remaining(ctx context.Context, c *kube.Client, pod *corev1.Pod) ([]corev1.Pod, error) {
	root, err := c.Pod(ctx, pod.Name)
	if err == nil && root.UID == pod.UID {
		return []corev1.Pod{*root}, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	pods, err := c.Pods(ctx, kube.Managed, false)
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !ownedBy(&p, pod.UID) }), err
}
