package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/internal/stdio"
)

// RootPod is the root's pod of a program on a cluster, with the pods that it has started.
type RootPod struct {
	Pod      corev1.Pod // of several that a Job has made, the last
	Children []corev1.Pod

	job  *batchv1.Job // that replaces the pod when it dies, nil for none
	pods []corev1.Pod // that the Job has made
}

// Name returns what the program is called: its Job's name, or else its pod's.
func (m RootPod) Name() string {
	if m.job != nil {
		return m.job.Name
	}
	return m.Pod.Name
}

// Job returns the Job that replaces the pod when it dies, nil for none.
func (m RootPod) Job() metav1.Object {
	if m.job == nil {
		return nil
	}
	return m.job
}

// Ended reports whether the program is over.
func (m RootPod) Ended() bool {
	return (m.Pod.UID == "" || Ended(&m.Pod)) && (m.job == nil || kube.Finished(m.job))
}

// Program returns the program's name.
func (m RootPod) Program() string { return m.Pod.Labels[LabelProgram] }

// Status returns how far the program has come, in a word or two.
func (m RootPod) Status() string {
	s := kube.Judge(&m.Pod)
	switch {
	case m.job != nil && !kube.Finished(m.job) && (m.Pod.UID == "" || m.Pod.DeletionTimestamp != nil || Ended(&m.Pod) && !wasLast(&m.Pod)):
		return "restarting"
	case m.Pod.UID == "":
		return "failed"
	case m.Pod.DeletionTimestamp != nil:
		return "ending"
	case s.Failed != "":
		return "failed"
	case s.Ended != nil && s.Ended.ExitCode == 0:
		return "done"
	case s.Ended != nil && s.Ended.Reason == kube.OutOfMemory:
		return kube.OutOfMemory
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
	jobs, err := c.Jobs(ctx, kube.Managed, all)
	if err != nil && !apierrors.IsForbidden(err) { // a user who may not list Jobs has made none
		return Found{}, err
	}
	for _, j := range jobs {
		f.Roots = append(f.Roots, RootPod{job: &j, Pod: absent(&j)})
	}
	for _, p := range pods.Items {
		switch p.Labels[LabelRole] {
		case RoleRoot:
			f.root(p)
		case RoleCopy:
			f.Copies = append(f.Copies, p)
		}
	}
	for _, p := range pods.Items {
		if p.Labels[LabelRole] != "" {
			continue
		}
		if n := slices.IndexFunc(f.Roots, func(r RootPod) bool { return r.owns(&p) }); n >= 0 {
			f.Roots[n].Children = append(f.Roots[n].Children, p)
		} else {
			f.Others = append(f.Others, p)
		}
	}
	return f, nil
}

// root adds the root's pod of a program.
func (f *Found) root(p corev1.Pod) {
	n := slices.IndexFunc(f.Roots, func(r RootPod) bool { return r.job != nil && metav1.IsControlledBy(&p, r.job) })
	if n < 0 {
		f.Roots = append(f.Roots, RootPod{Pod: p})
		return
	}
	r := &f.Roots[n]
	if r.pods = append(r.pods, p); newer(&p, &r.Pod) {
		r.Pod = p
	}
}

func (m RootPod) owns(p *corev1.Pod) bool {
	return ownedBy(p, m.Pod.UID) || slices.ContainsFunc(m.pods, func(of corev1.Pod) bool { return ownedBy(p, of.UID) })
}

func ownedBy(p *corev1.Pod, owner types.UID) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner })
}

// Lookup finds a pod by a name: the pod's own, the beginning of the name of exactly one root's pod, or the name of a program
// with exactly one. Between two pods of a Job, the pod has the Job's name and no UID.
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
		if m.Program() == name || strings.HasPrefix(m.Name(), name) || strings.HasPrefix(m.Pod.Name, name) {
			fits, names = append(fits, m.Pod.DeepCopy()), append(names, m.Name())
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

// Logs writes a pod's output so far and, with follow, the output until the pod ends, and that of the pods that take its place. It
// ends early, without an error, when the reader of stdout is gone.
func Logs(ctx context.Context, c *kube.Client, pod *corev1.Pod, follow bool, stdout, stderr io.Writer, report *Report) error {
	for {
		next, err := logs(ctx, c, pod, follow, stdout, stderr, report)
		if next == nil || err != nil {
			return err
		}
		report.Say("%s takes the place of %s", next.Name, pod.Name)
		pod = next
	}
}

// logs does that for one pod, and returns the next.
func logs(ctx context.Context, c *kube.Client, pod *corev1.Pod, follow bool, stdout, stderr io.Writer, report *Report) (*corev1.Pod, error) {
	if pod.UID == "" {
		switch job, err := c.Job(ctx, pod.Name); {
		case err != nil:
			return nil, err
		case kube.Finished(job):
			return nil, fmt.Errorf("%s has ended, and the cluster has removed its last pod, with the output", pod.Name)
		case !follow:
			return nil, fmt.Errorf("no pod of %s is there now, but another one will take its place: fiber logs -f %[1]s waits for it", pod.Name)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unread := func() { cancel(errUnread) }
	marked := report.stderr(stderr)
	defer stdio.Leave()
	defer marked.Close()
	to := &logmux.Reader{Stdout: report.above(stdout, unread), Stderr: marked}
	out := &kube.Output{Client: c, Pod: pod, To: to.Stdout, Lost: report.lost}
	if kube.Joined(pod) {
		out.To = to
	}
	var next succession
	read := out.Read
	if follow {
		job := kube.NewJob(pod, kube.Options{Client: c})
		go func() { cancel(job.Watch(ctx)) }()
		read = func(ctx context.Context) error {
			reading, stop := context.WithCancel(ctx)
			known := make(chan struct{})
			go func() {
				if next = <-succeed(ctx, job); next.pod != nil && !over(job) {
					stop() // a dead node sends no more
				}
				close(known)
			}()
			err := out.Follow(reading, job.Silent(reading))
			if <-known; reading.Err() != nil || err == nil {
				err = next.err
			}
			stop()
			return err
		}
	}
	err := read(ctx)
	to.Close()
	switch cause := context.Cause(ctx); cause {
	case nil:
		return next.pod, err
	case errUnread:
		return nil, nil
	default:
		return nil, cause
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
// program is killed, and pods on nodes that do not answer are deleted by force. No other pod takes its place.
func Stop(ctx context.Context, c *kube.Client, pod *corev1.Pod, now bool) error {
	grace := int64(-1)
	if now {
		grace = kube.KillGrace
	}
	begun := time.Now()
	of, err := []corev1.Pod{*pod}, error(nil)
	if by := kube.JobOf(pod); by != nil {
		of, err = removeJob(ctx, c, by, grace)
	} else {
		err = c.Delete(ctx, "pods", pod, grace)
	}
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, goneAgain, true, func(ctx context.Context) (gone bool, err error) {
		left, err := remaining(ctx, c, of)
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

// remaining lists those of the pods that are still there, or else what is left of the pods that they have started.
func remaining(ctx context.Context, c *kube.Client, roots []corev1.Pod) (left []corev1.Pod, err error) {
	for _, pod := range roots {
		root, err := c.Pod(ctx, pod.Name)
		switch {
		case err == nil && root.UID == pod.UID:
			left = append(left, *root)
		case err != nil && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	if len(left) > 0 {
		return left, nil
	}
	pods, err := c.Pods(ctx, kube.Managed, false)
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return !slices.ContainsFunc(roots, func(root corev1.Pod) bool { return ownedBy(&p, root.UID) })
	}), err
}
