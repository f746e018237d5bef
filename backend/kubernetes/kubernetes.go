// Package kubernetes runs Fiber's jobs as pods of a Kubernetes cluster.
//
// A pod runs the image of the pod that this process is in, one that is made from
// the executable and pushed to a registry, or one that the user names. A single
// watch reports what happens to all pods. If the run's root is a pod, it owns
// the other pods of the run, and they are deleted with it.
package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/lock"
)

// clusterTimeout bounds what the cluster does for one pod after the caller has
// stopped waiting.
const clusterTimeout = 30 * time.Second

// finalTimeout bounds the last deletions of Close, which are due even if the pods
// have used up the time that Close had.
const finalTimeout = 10 * time.Second

// Backend starts pods. It does not talk to a cluster before its first use.
type Backend struct {
	cfg     config.Config
	session string // in a label of everything that the backend makes
	log     *slog.Logger

	cluster  lock.Once[cluster]
	swept    lock.Once[struct{}]
	images   image.Cache[prepared]
	secrets  secrets
	watch    watcher
	removals removals
	launches lives.Launches // and the making of secrets
}

// cluster is a cluster that has answered.
type cluster struct {
	*kube.Client
	self     *corev1.Pod // the pod that this process is in, nil if it is in none
	template *corev1.Pod
	claims   []kube.Claim
}

// New returns the backend. What cfg does not set has its default. The backend
// logs what fails after the jobs concerned have ended.
func New(cfg config.Config, log *slog.Logger) *Backend {
	return &Backend{cfg: cfg.WithDefaults(), session: strings.ToLower(rand.Text()[:16]), log: log, secrets: secrets{made: map[string]bool{}}}
}

// Name is "kubernetes".
func (*Backend) Name() string { return kube.Name }

// PlacesJobs says that the cluster does.
func (*Backend) PlacesJobs() {}

// AvoidsMachines says that nodes can be avoided.
func (*Backend) AvoidsMachines() {}

// Submit runs this program in the cluster that its processes are to run in: pods
// cannot dial a machine outside of their cluster, unless the setting host says where
// they can.
func (b *Backend) Submit(warnings []string) (code int, gone bool) {
	if b.cfg.Host != "" || kube.InPod() {
		return 0, false
	}
	return submit.Main(b.cfg, warnings), true
}

func init() {
	backend.Register(backend.Plugin{Name: kube.Name, Here: kube.InPod,
		Make: func(o backend.Options) (backend.Backend, error) { return New(config.Of(o.Setting), o.Log), nil }})
}

// failure returns the error of a launch.
func (b *Backend) failure(job string, err error) error {
	return lives.Failure(b, job, err, kube.Final(err))
}

// connect finds the cluster, and removes what dead runs have left there, once each. A sweep that ctx has ended is none.
func (b *Backend) connect(ctx context.Context) (*cluster, error) {
	c, err := b.cluster.Make(ctx, func() (*cluster, error) { return b.find(ctx) })
	if err == nil && !c.InCluster {
		err = lock.Do(ctx, &b.swept, c.sweep)
	}
	return c, err
}

func (b *Backend) find(ctx context.Context) (*cluster, error) {
	client, err := kube.Connect(b.cfg.KubernetesNamespace)
	if err != nil {
		return nil, lives.Refuse(err)
	}
	c := &cluster{Client: client}
	if c.template, err = client.Template(b.cfg.PodTemplate); err != nil {
		return nil, lives.Refuse(err)
	}
	c.claims, _ = kube.ParseClaims(b.cfg.KubernetesVolumes) // already checked
	if client.InCluster {
		if c.self, err = findSelf(ctx, client); err != nil {
			return nil, err
		}
		if c.self != nil && c.template == nil {
			if c.template, err = kube.PassedOn(c.self); err != nil {
				return nil, lives.Refuse(err)
			}
		}
	}
	return c, nil
}

// Launch starts a pod. It blocks while the image is made and pushed, and returns
// when the cluster has accepted the pod, which may still wait for room then.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	j, err := b.launch(ctx, spec)
	if err != nil {
		return nil, b.failure(spec.Name, err)
	}
	return j, nil
}

func (b *Backend) launch(ctx context.Context, spec backend.JobSpec) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	img, err := b.image(ctx, c, spec.Executable)
	if err != nil {
		return nil, err
	}
	env, err := b.secret(ctx, c, spec)
	if err != nil {
		return nil, err
	}
	target := ""
	if spec.Delivery != nil {
		if target, err = spec.Delivery.Target(ctx); err != nil {
			return nil, err
		}
	}
	pod := b.pod(c, img, env, target, spec)
	j := &job{backend: b, Job: kube.NewJob(pod, kube.Options{Client: c.Client, Name: spec.Name, OutputGrace: outputGrace,
		Stdout: spec.Stdout, Stderr: spec.Stderr, Delivery: spec.Delivery})}
	if err := b.watch.add(ctx, c, b.session, j); err != nil {
		return nil, err
	}
	err = b.launches.Do(ctx, func() error {
		// The cluster may make a pod although the launch was cancelled.
		engaged, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterTimeout)
		defer cancel()
		pod, err := kube.Make(engaged, c.Client, "pods", pod.Name, pod)
		if err == nil {
			j.Made(pod)
		}
		return err
	}, func() { b.undo(j) }) // after an error, too, the pod may exist
	if err != nil {
		return nil, err
	}
	go j.Run(context.Background())
	return j, nil
}

// undo removes the pod of a launch that was given up.
func (b *Backend) undo(j *job) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	b.watch.drop(j)
	j.Client.Delete(ctx, "pods", j.Pod(), 0)
}

// Close removes what is left of this backend's pods and secrets. Until ctx
// ends, it waits for the ends of the pods' programs; then it deletes what is there.
func (b *Backend) Close(ctx context.Context) error {
	c := b.cluster.Made()
	if c == nil {
		return nil
	}
	unfinished := b.launches.Wait(ctx)
	var removals sync.WaitGroup
	for _, j := range b.watch.jobs.Range {
		removals.Go(func() { j.(*job).Remove(ctx) })
	}
	removals.Wait()
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer cancel()
	err := errors.Join(unfinished, b.secrets.remove(final, c))
	open, closing := b.watch.close(final)
	if open { // so pods may have been made
		b.removals.take()
		closing = c.DeleteAll(final, "pods", labelSession+"="+b.session)
	}
	err = errors.Join(err, closing)
	c.Close()
	return err
}
