package submit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/transport"
)

const (
	// The init of the root's pod listens at one of these ports, which programs hardly use and systems do not hand out.
	firstPort, ports = 61000, 4000
	// And so it does for fiber top, at one of those that follow.
	statusPorts = 500
	// reachTime bounds the tries to reach an init that is there, before its output is read from the log.
	reachTime = 30 * time.Second
	// maxFirstLine is how many bytes the first line of an init has at most.
	maxFirstLine = 100
	// fromLog says what that means.
	fromLog = "it is read from the pod's log, which loses some of the output of a program that writes many megabytes at once"
)

// delivered is the output of a root's pod whose init listens in the pod: pods can't dial this machine.
type delivered struct {
	*Run
	pod         *corev1.Pod // its own: another may take its place in the Run
	port        int
	credentials *transport.Credentials
}

// deliver has the job's init deliver its output if the job is followed, and its user may reach the init.
func (r *Run) deliver(ctx context.Context, job *Job) error {
	if r.Detach || !job.Joined {
		return nil
	}
	yes, err := r.Client.Allowed(ctx, "create", "pods/portforward")
	switch {
	case err != nil && kube.Unreachable(err):
		return err
	case err == nil && !yes:
		r.Report.lost(fmt.Errorf("no permission to create pods/portforward in the namespace %s; %s", r.Client.Namespace, fromLog))
		return nil
	}
	cred, err := transport.NewCredentials()
	if err != nil {
		return err
	}
	d := &delivered{r, nil, firstPort + rand.IntN(ports), cred}
	target := delivery.Target{Port: d.port}
	target.Credentials, _ = cred.MarshalBinary() // never fails
	r.delivery, job.Env = d, append(job.Env[:len(job.Env):len(job.Env)], delivery.Key+"="+target.String())
	return nil
}

// Read implements [kube.Reading].
func (d *delivered) Read(ctx context.Context, started, ended <-chan struct{}, to backend.Joined) (whole bool) {
	select {
	case <-started:
	case <-ended:
	case <-ctx.Done():
	}
	if !d.begins(ctx, ended) {
		return false
	}
	reached, begun := false, time.Now()
	err := delivery.Read(ctx, func(ctx context.Context) (*transport.Conn, error) {
		for again := (retry.Pauses{Longest: kube.LongestPause}); ; {
			conn, err := d.dial(ctx)
			if err == nil {
				reached = true
				return conn, nil
			}
			select {
			case <-ended:
				return nil, err
			case <-ctx.Done():
				return nil, err
			default:
			}
			if !reached && (time.Since(begun) > reachTime || apierrors.IsForbidden(err) || strings.Contains(err.Error(), "refused")) {
				d.Report.lost(fmt.Errorf("%w; %s", err, fromLog))
				return nil, err
			}
			select {
			case <-again.Next():
			case <-ended:
			case <-ctx.Done():
			}
		}
	}, to)
	return err == nil
}

// begins waits for the first line of the pod's log, and reports whether an init has written it. By then the init listens.
func (d *delivered) begins(ctx context.Context, ended <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log, to := io.Pipe()
	defer log.Close()
	go func() {
		to.CloseWithError((&kube.Output{Client: d.Client, Pod: d.pod, To: to}).Follow(ctx, ended))
	}()
	line, _ := bufio.NewReader(io.LimitReader(log, maxFirstLine)).ReadSlice('\n') // an error comes again when the log is read
	return logmux.Begins(line)
}

// dial connects to the init.
func (d *delivered) dial(ctx context.Context) (*transport.Conn, error) {
	nc, err := d.Client.DialPod(ctx, d.pod.Name, d.port)
	if err != nil {
		return nil, err
	}
	return transport.Over(ctx, nc, d.credentials, transport.Options{})
}
