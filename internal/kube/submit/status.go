package submit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/runs"
)

// Status asks the init of a program's pod how the program is. A connection serves for many answers.
type Status struct {
	client *kube.Client
	pod    *corev1.Pod
	port   int
	conn   net.Conn // nil between connections
}

// NewStatus returns what asks how the program of a pod is, or an error if the pod has no init that answers.
func NewStatus(c *kube.Client, pod *corev1.Pod) (*Status, error) {
	env := kube.Main(pod).Env
	n := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == runs.PortKey })
	switch {
	case pod.UID == "" || Ended(pod):
		return nil, fmt.Errorf("%s does not run now", pod.Name)
	case n < 0 && pod.Spec.HostNetwork:
		return nil, fmt.Errorf("%s is in its node's network: it does not say there how it is", pod.Name)
	case n < 0:
		return nil, fmt.Errorf("%s does not use Fiber", pod.Name)
	}
	port, err := strconv.Atoi(env[n].Value)
	return &Status{client: c, pod: pod, port: port}, err
}

// Ask returns how the program is. It takes about a second, and blocks until the program answers, or ctx ends.
// The error is context.DeadlineExceeded, too, if the program has not answered for a while. After an error, another call tries again.
func (s *Status) Ask(ctx context.Context) (runs.Status, error) {
	if s.conn == nil {
		conn, err := s.client.DialPod(ctx, s.pod.Name, s.port)
		if err != nil {
			return runs.Status{}, s.ended(ctx, err)
		}
		s.conn = conn
	}
	conn := s.conn
	off := context.AfterFunc(ctx, func() { conn.Close() })
	defer off()
	a, err := runs.AskOver(conn)
	switch {
	case ctx.Err() != nil:
		return runs.Status{}, ctx.Err()
	case err != nil:
		conn.Close()
		s.conn = nil
		return runs.Status{}, s.ended(ctx, err)
	case a.Silent:
		return a.Status, context.DeadlineExceeded
	case a.Ended:
		return a.Status, runs.ErrEnded
	case a.Err != "":
		return a.Status, errors.New(a.Err)
	}
	return a.Status, nil
}

// Over reports whether the program is over, as far as the cluster says.
func (s *Status) Over(ctx context.Context) bool { return s.ended(ctx, nil) != nil }

// ended returns [runs.ErrEnded] for the error of a program that is over.
func (s *Status) ended(ctx context.Context, err error) error {
	pod, looked := s.client.Pod(ctx, s.pod.Name)
	if apierrors.IsNotFound(looked) || looked == nil && (pod.UID != s.pod.UID || Ended(pod)) {
		return runs.ErrEnded
	}
	return err
}

// Close ends the connection.
func (s *Status) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
}
