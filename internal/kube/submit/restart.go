package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// unreachable is how many seconds a node may be out of reach before the cluster deletes the pod of a program that is to be
// started again there. The cluster has noticed after 40 or 50 seconds; by default it waits for five more minutes.
const unreachable = 20

// CheckRestarts returns an error unless the next pod of a job that is started again finds its files, whichever node it is on.
func (j Job) CheckRestarts(ctx context.Context, c *kube.Client) error {
	pod, _ := j.Pod()
	shared := false
	for _, v := range pod.Spec.Volumes {
		of := v.PersistentVolumeClaim
		if of == nil {
			continue
		}
		claim, err := c.Claim(ctx, of.ClaimName)
		switch {
		case apierrors.IsNotFound(err):
			return cmp.Or(c.Missing(ctx), fmt.Errorf("the namespace %s has no claim %s", c.Namespace, of.ClaimName))
		case err != nil:
			return fmt.Errorf("--restart: the claim %s: %w", of.ClaimName, err)
		case !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany):
			return fmt.Errorf("--restart: the claim %s is %s: on another node, the program could not have it; use a claim with the access mode ReadWriteMany",
				of.ClaimName, strings.Join(modes(claim), ", "))
		}
		shared = true
	}
	if !shared {
		return errors.New("--restart: without a claim, a program that is started again would begin from nothing: " +
			"use -v CLAIM with a claim of the access mode ReadWriteMany, and keep a fiber.Checkpoint or fiber.SaveState on it")
	}
	return nil
}

func modes(claim *corev1.PersistentVolumeClaim) (modes []string) {
	for _, m := range claim.Spec.AccessModes {
		modes = append(modes, string(m))
	}
	return modes
}

// batch returns the Job that runs a pod, and runs it again when it dies. The Job counts a pod that is being deleted as one that
// has failed, since a dead node never confirms the end. A Job that does so can't tell why a pod has failed: the init of the program
// tells the Job when to stop; see [kube.Finished].
func batch(pod *corev1.Pod, restarts int) *batchv1.Job {
	m := kube.Main(pod)
	kube.Setenv(m, pid1.FenceKey, pod.Name)
	m.Env = append(m.Env, corev1.EnvVar{Name: kube.PodNameKey, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == taint }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(unreachable))})
		}
	}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels}, Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(restarts)), PodReplacementPolicy: new(batchv1.TerminatingOrFailed),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
	}}
}

// startJob creates a Job, what its pods need, and waits for the first of them. Engaged ends a while after ctx.
func (r *Run) startJob(ctx, engaged context.Context, pod *corev1.Pod, env *corev1.Secret, restarts int) error {
	if err := r.Client.Acceptable(ctx, pod); err != nil {
		return r.taken(err, "pod", pod.Name)
	}
	job, err := kube.Make(engaged, r.Client, "jobs", pod.Name, batch(pod, restarts))
	if err != nil {
		return r.taken(err, "job", pod.Name)
	}
	r.batch = &metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID}
	if err = ctx.Err(); err == nil && env != nil {
		r.secret, env.OwnerReferences = env.Name, owned(job)
		_, err = kube.Make(ctx, r.Client, "secrets", env.Name, env)
	}
	if err == nil {
		err = r.makeLease(ctx, job)
	}
	if err == nil {
		r.pod, err = r.first(ctx)
	}
	if err != nil {
		_ = r.Remove(0) // the first error is returned
	}
	return err
}

// formerLease is how long the Lease of a former Job of that name may stay: the cluster removes it after the Job.
const formerLease = time.Minute

// makeLease makes the Lease of a Job's pods.
func (r *Run) makeLease(ctx context.Context, job *batchv1.Job) error {
	last := error(nil)
	err := wait.PollUntilContextTimeout(ctx, goneAgain, formerLease, true, func(ctx context.Context) (bool, error) {
		_, last = kube.Make(ctx, r.Client, "leases", job.Name,
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: job.Name, Labels: job.Labels, OwnerReferences: owned(job)}})
		if apierrors.IsAlreadyExists(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("a lease of another program has the name %s: %w; use another --name", job.Name, last)
	}
	return err
}

// first waits for the first pod of the Job.
func (r *Run) first(ctx context.Context) (pod *corev1.Pod, err error) {
	why, refusals := "no pod was made for it", kube.Refusals{}
	err = wait.PollUntilContextTimeout(ctx, goneAgain, r.StartTimeout, true, func(ctx context.Context) (made bool, err error) {
		if pod, err = newest(ctx, r.Client, r.batch); pod != nil || refusals.Final(err, true) {
			return true, err
		}
		if err != nil {
			why = err.Error()
			return false, nil
		}
		events, _ := r.Client.PodEvents(ctx, r.batch.Name) // they only add details
		for _, e := range events {
			if e.Type == corev1.EventTypeWarning {
				why = e.Message
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("%s was not started within %v (FIBER_START_TIMEOUT): %s", r.batch.Name, r.StartTimeout, why)
	}
	return pod, err
}

// newest returns the last pod that a Job has made, nil for none.
func newest(ctx context.Context, c *kube.Client, job metav1.Object) (last *corev1.Pod, err error) {
	pods, err := podsOf(ctx, c, job)
	for _, p := range pods {
		if last == nil || newer(&p, last) {
			last = &p
		}
	}
	return last, err
}

// podsOf lists the pods that a Job has made.
func podsOf(ctx context.Context, c *kube.Client, job metav1.Object) ([]corev1.Pod, error) {
	pods, err := c.Pods(ctx, kube.JobSelector(job.GetName()), false)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, job) }), nil
}

// newer reports whether a Job has made p after q: it makes the next only when the last one is being deleted, or over.
func newer(p, q *corev1.Pod) bool {
	if !p.CreationTimestamp.Equal(&q.CreationTimestamp) {
		return q.CreationTimestamp.Before(&p.CreationTimestamp)
	}
	return q.UID == "" || q.DeletionTimestamp != nil || Ended(q)
}

// absent returns what stands for the pod of a Job before the first, and between two.
func absent(j *batchv1.Job) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, Labels: j.Labels, CreationTimestamp: j.CreationTimestamp,
		OwnerReferences: owned(j)}, Spec: j.Spec.Template.Spec}
}

// owned returns references that make a Job an object's owner.
func owned(j *batchv1.Job) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
}

// removeJob deletes a Job, so that it makes no more pods, and then those that it has made, which removeJob returns.
func removeJob(ctx context.Context, c *kube.Client, job metav1.Object, grace int64) ([]corev1.Pod, error) {
	if err := c.Delete(ctx, "jobs", job, -1); err != nil {
		return nil, err
	}
	pods, err := podsOf(ctx, c, job)
	for _, p := range pods {
		err = errors.Join(err, c.Delete(ctx, "pods", &p, grace))
	}
	return pods, err
}

// stillThere is for how many seconds the end of a pod is waited for when another one has taken its place: the last of its output
// may be on the way.
const stillThere = 5

// succession is the pod that takes the place of another one, nil if none will.
type succession struct {
	pod *corev1.Pod
	err error
}

// succeed looks, until ctx ends, for the pod that takes the place of a job's when that has ended, or does not answer.
func succeed(ctx context.Context, job *kube.Job) <-chan succession {
	found := make(chan succession, 1)
	if kube.JobOf(job.Pod()) == nil { // no pod takes its place
		found <- succession{}
		return found
	}
	go func() {
		var refusals kube.Refusals
		for seen := 0; ; {
			if died(job) {
				next, last, err := successor(ctx, job)
				if next != nil {
					seen++
				}
				if seen > 0 && over(job) || seen > stillThere || last || refusals.Final(err, true) {
					found <- succession{next, err}
					return
				}
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				found <- succession{err: ctx.Err()}
				return
			}
		}
	}()
	return found
}

// over reports whether the cluster knows that the pod of a job has ended.
func over(job *kube.Job) bool {
	pod := job.Pod()
	return pod.UID == "" || job.Gone.Load() || Ended(pod)
}

// died reports whether the pod of a job has ended, or will. A pod that is only expected never to start, has not.
func died(job *kube.Job) bool { return over(job) || job.Pod().DeletionTimestamp != nil }

// wasLast reports whether no pod will take the place of one that has ended.
func wasLast(pod *corev1.Pod) bool {
	t := kube.Judge(pod).Ended
	return t != nil && (t.ExitCode == 0 || t.Reason == kube.OutOfMemory)
}

// successor returns the pod that has taken the place of a job's, nil for none, and whether none will. A pod that is being
// deleted works on to its end, or is on a node that does not answer: then another one holds the Lease.
func successor(ctx context.Context, job *kube.Job) (next *corev1.Pod, last bool, err error) {
	pod, over := job.Pod(), over(job)
	by := kube.JobOf(pod)
	batch, err := job.Client.Job(ctx, by.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && batch.UID != by.UID:
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case over && (kube.Finished(batch) || wasLast(pod)):
		return nil, true, nil
	}
	next, err = newest(ctx, job.Client, by)
	if err != nil || next == nil || next.UID == pod.UID {
		return nil, false, err
	}
	if !over {
		holder, err := job.Client.Holder(ctx, by.Name)
		if err != nil || holder != next.Name {
			return nil, false, err
		}
	}
	return next, false, nil
}
