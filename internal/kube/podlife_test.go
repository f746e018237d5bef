package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// following returns a job whose log is gone, and a pod of it.
func following(t *testing.T) (*kube.Job, *corev1.Pod) {
	t.Helper()
	client := dial(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	})
	pod, _ := kube.NewPod(nil)
	pod.ObjectMeta = metav1.ObjectMeta{Name: "pod", UID: "1"}
	job := kube.NewJob(pod, kube.Options{Client: client, Name: "Job", OutputGrace: time.Second, Secret: "environment"})
	go job.Run(t.Context())
	return job, pod
}

// logging returns a client of an API that serves a pod's log with these lines.
func logging(t *testing.T, lines ...string) *kube.Client {
	t.Helper()
	return dial(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range lines {
			fmt.Fprint(w, "2026-01-02T03:04:05.1Z ", line)
		}
	})
}

func with(pod *corev1.Pod, status corev1.PodStatus) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status = status
	return pod
}

func inState(phase corev1.PodPhase, state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: kube.Container, State: state}}}
}

func TestHowAJobEnds(t *testing.T) {
	for name, test := range map[string]struct {
		how    corev1.ContainerStateTerminated
		status string
		code   int
	}{
		"memory": {corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}, "signal: killed, OOMKilled: it used more memory than its node has", 137},
		"code":   {corev1.ContainerStateTerminated{ExitCode: 3}, "exit code 3", 3},
		"signal": {corev1.ContainerStateTerminated{Signal: 9}, "signal: killed", 137},
	} {
		job, pod := following(t)
		job.Update(with(pod, inState(corev1.PodFailed, corev1.ContainerState{Terminated: &test.how})), false)
		status, err := job.Wait(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, test.status, status.String(), name)
		require.Equal(t, test.code, status.Code, name)
	}
}

// The first that the cluster reports of a quick program may be its end: its output is read nevertheless.
func TestOutputOfAQuickProgram(t *testing.T) {
	client := logging(t, "quick\n")
	for range 10 {
		pod, _ := kube.NewPod(nil)
		pod.Name = "pod"
		var stdout bytes.Buffer
		job := kube.NewJob(pod, kube.Options{Client: client, OutputGrace: 10 * time.Second, Stdout: &stdout})
		job.Update(with(pod, inState(corev1.PodSucceeded, corev1.ContainerState{Terminated: new(corev1.ContainerStateTerminated)})), false)
		job.Run(t.Context())
		require.Equal(t, "quick\n", stdout.String())
	}
}

// Only the log of a pod with an init is taken apart: another's is all stdout, whatever it looks like.
func TestOutputWithoutAnInit(t *testing.T) {
	const mark = "\x1b[;;2147483648;2147483649;4294967295m"
	client := logging(t, mark+"\n", "\x1b[;merr\n", "out\n", mark+"7\n")
	for _, joined := range []bool{false, true} {
		pod, m := kube.NewPod(nil)
		pod.Name = "pod"
		wantOut, wantErr := mark+"\n\x1b[;merr\nout\n"+mark+"7\n", ""
		if joined {
			kube.Setenv(m, pid1.Key, pid1.Value)
			wantOut, wantErr = "out\n", "err\n"
		}
		var stdout, stderr bytes.Buffer
		job := kube.NewJob(pod, kube.Options{Client: client, OutputGrace: 10 * time.Second, Stdout: &stdout, Stderr: &stderr})
		job.Update(with(pod, inState(corev1.PodSucceeded, corev1.ContainerState{Terminated: new(corev1.ContainerStateTerminated)})), false)
		job.Run(t.Context())
		require.Equal(t, wantOut, stdout.String())
		require.Equal(t, wantErr, stderr.String())
	}
}

// delivering delivers the beginning of an output, and then its end if that is all.
type delivering struct {
	text  string
	whole bool
}

func (d delivering) Read(_ context.Context, _, _ <-chan struct{}, to backend.Joined) bool {
	io.WriteString(to, d.text)
	return d.whole
}

// What was delivered is the output. If the delivery broke off, the pod's log has the rest; if that was rotated, a line says how
// much is missing, which the log's end knows, or the container's.
func TestADeliveredOutput(t *testing.T) {
	const mark = "\x1b[;;2147483648;2147483649;4294967295m"
	log := []string{mark + "\n", "out\n", "\x1b[;merr\n", "more\n", mark + "7\x1b[;;;;55m\n"}
	whole, begun := strings.Join(log, ""), log[0]+log[1]
	for _, test := range []struct {
		delivery       kube.Reading
		log            []string
		last           string
		stdout, stderr string
	}{
		{delivering{whole, true}, nil, log[4], "out\nmore\n", "err\n"},
		{delivering{"", false}, log, log[4], "out\nmore\n", "err\n"},
		{delivering{begun, false}, log, log[4], "out\nmore\n", "err\n"},
		{delivering{whole[:len(whole)-5], false}, log, log[4], "out\nmore\n", "err\n"},
		{delivering{begun, false}, log[2:], log[4], "out\nmore\n", "err\n"},
		{delivering{begun, false}, log[3:], log[4], "out\nmore\n",
			"fiber: about 8 bytes of output are missing here: they had left the log before they were read\n"},
		{delivering{begun, false}, nil, log[4], "out\n",
			"fiber: about 13 bytes of output are missing above: they had left the log before they were read\n"},
		{delivering{begun, false}, log[2:3], "Error", "out\n",
			"fiber: what follows of the output is missing: it was not read in time, and has left the log as well\n"},
		{nil, log[:2:2], "", "out\n", ""},
	} {
		pod, m := kube.NewPod(nil)
		pod.Name = "pod"
		kube.Setenv(m, pid1.Key, pid1.Value)
		var stdout, stderr bytes.Buffer
		job := kube.NewJob(pod, kube.Options{Client: logging(t, test.log...), OutputGrace: 10 * time.Second, Stdout: &stdout, Stderr: &stderr,
			Delivery: test.delivery})
		job.Update(with(pod, inState(corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: test.last}})), false)
		job.Run(t.Context())
		require.Equal(t, test.stdout, stdout.String())
		require.Equal(t, test.stderr, stderr.String())
	}
}

// The program of a pod that was removed by force goes on until its node hears of it. What it writes until then is read.
func TestOutputOfAPodThatWasRemovedByForce(t *testing.T) {
	begun, removed := make(chan struct{}), make(chan struct{})
	opened := 0
	client := dial(t, func(w http.ResponseWriter, _ *http.Request) {
		if opened++; opened > 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
			return
		}
		fmt.Fprint(w, "2026-01-02T03:04:05.1Z before\n")
		w.(http.Flusher).Flush()
		close(begun)
		<-removed
		time.Sleep(time.Second) // longer than the node lags behind for a program that has ended
		fmt.Fprint(w, "2026-01-02T03:04:06.1Z after\n")
	})
	pod, _ := kube.NewPod(nil)
	pod.Name = "pod"
	var stdout bytes.Buffer
	job := kube.NewJob(pod, kube.Options{Client: client, OutputGrace: time.Minute, Stdout: &stdout})
	running := with(pod, inState(corev1.PodRunning, corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}))
	job.Update(running, false)
	go func() {
		<-begun
		job.Update(running, true)
		close(removed)
	}()
	job.Run(t.Context())
	require.Equal(t, "before\nafter\n", stdout.String())
	status, err := job.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "its pod was deleted", status.Reason)
}

// A pod may be reported as failed before its program has ended, as on a lost node: its output goes on.
func TestAPodThatFailsBeforeItsProgramEnds(t *testing.T) {
	job, pod := following(t)
	job.Update(with(pod, inState(corev1.PodFailed, corev1.ContainerState{Running: new(corev1.ContainerStateRunning)})), false)
	<-job.Started
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := job.Wait(soon)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it is not over")

	other := with(pod, inState(corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}))
	other.UID = "2" // another pod with its name
	job.Update(other, true)
	job.Update(with(pod, inState(corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}})), false)
	status, err := job.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, status.Code)
	require.False(t, job.Gone.Load())
}

func TestAJobThatIsNeverStarted(t *testing.T) {
	waits := func(reason, message string) corev1.PodStatus {
		return inState(corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	}
	for reason, test := range map[string]struct {
		states []corev1.PodStatus
		gone   bool
	}{
		"its pod was deleted before it had started": {[]corev1.PodStatus{waits("CreateContainerConfigError", `secret "environment" not found`)}, true},
		"ErrImagePull: i/o timeout": {[]corev1.PodStatus{waits("ErrImagePull", "connection refused"), waits("ImagePullBackOff", "i/o timeout"),
			waits("ErrImagePull", "i/o timeout")}, false},
		`CreateContainerConfigError: secret "x" not found`: {[]corev1.PodStatus{waits("CreateContainerConfigError", `secret "x" not found`)}, false},
	} {
		job, pod := following(t)
		for i, status := range test.states {
			job.Update(with(pod, status), test.gone && i == len(test.states)-1)
		}
		_, err := job.Wait(t.Context())
		var never *backend.LaunchError
		require.ErrorAs(t, err, &never)
		require.Equal(t, reason, never.Reason)
	}
}

// A job that is killed has ended by that, whether or not it had been started.
func TestAJobThatIsKilled(t *testing.T) {
	job, pod := following(t)
	job.Killed.Store(true)
	job.Update(pod, true)
	status, err := job.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, 137, status.Code)
	require.True(t, job.Gone.Load())
}
