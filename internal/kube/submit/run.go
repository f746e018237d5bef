package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

const (
	// lookAgain is how often a waiting pod is looked at.
	lookAgain = 2 * time.Second
	// noHope is how long a pod that no node can hold waits for an autoscaler to announce a node that can.
	noHope = 25 * time.Second
	// lastOutput bounds the wait for the output of a pod that has ended.
	lastOutput = 15 * time.Second
	// undo bounds the removal of a pod.
	undo = 15 * time.Second
	// atOnce bounds it after a second signal.
	atOnce = time.Second
)

// Run is a job on a cluster.
type Run struct {
	Client       *kube.Client
	Report       *Report
	StartTimeout time.Duration
	Stdout       io.Writer
	Stderr       io.Writer
	Detach       bool // Follow returns once the job has started
	Keep         bool // the pod stays after its end
	Returned     map[string]string

	pod      *corev1.Pod
	batch    *metav1.ObjectMeta // the Job that replaces the pod when it dies, nil for none
	secret   string             // with the pod's environment, "" for none
	delivery *delivered         // of the output; nil if it is in the pod's log alone
}

// Do calls prepare, which completes the job, starts it, and returns its exit code, or 0 with Detach.
func (r *Run) Do(signals chan os.Signal, job *Job, prepare func(context.Context) error) (code int, err error) {
	code, err = Before(signals, func(ctx context.Context) error {
		if err := prepare(ctx); err != nil {
			return err
		}
		return r.Start(ctx, *job)
	})
	if err != nil || code != 0 {
		return code, err
	}
	created := "Created pod: " + r.Pod()
	if r.batch != nil {
		created = "Created job: " + r.batch.Name
	}
	if r.Detach {
		fmt.Fprintln(r.Stdout, created)
	} else {
		r.Report.Say("%s", created)
	}
	return r.Follow(context.Background(), signals)
}

// Start creates the job's pod, or a Job that makes it, and the secret with its environment. If its template names no service
// account, the job has the one that deploy/rbac.yaml creates or, if that does not exist and no Job is made, the namespace's default.
func (r *Run) Start(ctx context.Context, job Job) error {
	if err := job.Check(); err != nil {
		return err
	}
	if err := r.deliver(ctx, &job); err != nil {
		return err
	}
	if job.Joined {
		r.returns(&job)
	}
	if job.Joined && !r.Detach {
		job.Env = append(job.Env[:len(job.Env):len(job.Env)], r.Report.followed()...)
	}
	spec, env := job.Pod()
	own := spec.Spec.ServiceAccountName == ""
	if own {
		spec.Spec.ServiceAccountName = ServiceAccount
	}
	// A cancelled request may still create the pod. So its end is waited for, for a while, and the pod removed.
	engaged, cancel := Linger(ctx)
	defer cancel()
	if job.Restarts > 0 {
		return r.startJob(ctx, engaged, spec, env, job.Restarts)
	}
	pod, err := kube.Make(engaged, r.Client, "pods", spec.Name, spec)
	if err != nil && own && apierrors.IsForbidden(err) && strings.Contains(errors.Unwrap(err).Error(), "looking up service account") {
		spec.Spec.ServiceAccountName = ""
		pod, err = kube.Make(engaged, r.Client, "pods", spec.Name, spec)
	}
	if err != nil {
		return r.taken(err, "pod", spec.Name)
	}
	r.pod = pod
	err = ctx.Err()
	if err == nil && env != nil { // the secret is removed with the pod
		r.secret, env.OwnerReferences = env.Name, kube.Owner(pod)
		_, err = kube.Make(ctx, r.Client, "secrets", env.Name, env)
	}
	if err != nil {
		_ = r.Remove(0) // the first error is returned
	}
	return err
}

// taken explains that an object of that name exists.
func (r *Run) taken(err error, kind, name string) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a %s %s in the namespace %s already: fiber stop %[2]s removes it", kind, name, r.Client.Namespace)
	}
	return err
}

// Linger returns a context that ends a while after ctx, for what should not be left half-done.
func Linger(ctx context.Context) (context.Context, context.CancelFunc) {
	lingering, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(undo, cancel) })
	return lingering, func() {
		stop()
		cancel()
	}
}

// Pod returns the name of the job's pod.
func (r *Run) Pod() string { return r.pod.Name }

// Remove deletes the pod, for good, even if the user cancels the run meanwhile; see [kube.Client.Delete] for the grace.
func (r *Run) Remove(grace int64) error { return r.remove(undo, grace) }

func (r *Run) remove(within time.Duration, grace int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if r.batch != nil {
		_, err := removeJob(ctx, r.Client, r.batch, grace)
		return err
	}
	return r.Client.Delete(ctx, "pods", r.pod, grace)
}
