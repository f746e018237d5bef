package kube

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobOf returns what names the Job that has made a pod and will replace it, nil for none.
func JobOf(pod *corev1.Pod) *metav1.ObjectMeta {
	by := metav1.GetControllerOf(pod)
	if by == nil || by.Kind != "Job" || pod.Labels[LabelManaged] != Manager {
		return nil
	}
	return &metav1.ObjectMeta{Namespace: pod.Namespace, Name: by.Name, UID: by.UID}
}

// JobSelector selects the pods that a Job has made.
func JobSelector(job string) string { return Managed + "," + batchv1.JobNameLabel + "=" + job }

// FailedKey is the annotation of a Job whose program has failed by itself: the name of the pod in which it did.
const FailedKey = "fiber.failed"

// Finished reports whether a Job starts no other pod when the last one has ended: it is over, is being removed, or its program
// has failed by itself.
func Finished(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type != batchv1.JobSuspended {
			return true
		}
	}
	return j.DeletionTimestamp != nil || j.Annotations[FailedKey] != ""
}
