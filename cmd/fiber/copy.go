package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// tarImage has sh and tar. Pods run it if this command can't be made into an image for them.
const tarImage = "busybox:1.37"

type copyCommand struct {
	where
	Image string `placeholder:"IMAGE" help:"An image with sh and tar, instead of one made from this command."`
	From  string `arg:"" help:"A file or folder; CLAIM:PATH is in a claim."`
	To    string `arg:"" help:"The destination; exactly one of the two is in a claim."`
}

// place is a path, here or in a claim.
type place struct{ claim, path string }

var claimPath = regexp.MustCompile(`^([a-z0-9][-a-z0-9.]*):(.*)$`)

func parsePlace(text string) place {
	if m := claimPath.FindStringSubmatch(text); m != nil {
		return place{m[1], m[2]}
	}
	return place{"", text}
}

// inPod returns where a place in a claim is in the pod.
func (p place) inPod() string { return path.Join(kube.DefaultMount, path.Join("/", p.path)) }

func (c *copyCommand) Run() error {
	from, to := parsePlace(c.From), parsePlace(c.To)
	switch {
	case from.claim != "" && to.claim != "":
		return misuse{fmt.Errorf("%s and %s are both in claims: cp copies between a claim and this machine", c.From, c.To)}
	case from.claim == "" && to.claim == "":
		return misuse{fmt.Errorf("neither %s nor %s is in a claim, which is written CLAIM:PATH: cp copies between a claim and this machine", c.From, c.To)}
	}
	if from.claim == "" {
		if _, err := os.Stat(from.path); err != nil {
			return err
		}
	}
	client, err := connect(c.Namespace)
	if err != nil {
		return err
	}
	cfg, err := settings(config.Config{})
	if err != nil {
		return err
	}
	return interruptible(func(ctx context.Context) error {
		h := &helper{client: client, report: submit.NewReport(os.Stderr)}
		if err := h.start(ctx, cfg, c.Image, from.claim+to.claim); err != nil {
			return err
		}
		defer h.remove()
		if from.claim != "" {
			return h.download(ctx, from, to.path)
		}
		return h.upload(ctx, from.path, to)
	})
}

// helper is the pod that mounts the claim.
type helper struct {
	client *kube.Client
	report *submit.Report
	run    *submit.Run
	own    bool // its image is made from this command
}

func (h *helper) start(ctx context.Context, cfg config.Config, img, claim string) error {
	if _, err := h.client.Claim(ctx, claim); apierrors.IsNotFound(err) {
		if err := h.client.Missing(ctx); err != nil {
			return err
		}
		return fmt.Errorf("the namespace %s has no claim %s", h.client.Namespace, claim)
	}
	template, err := kube.Template(cfg.PodTemplate)
	if err != nil {
		return err
	}
	h.sweep(ctx)
	job := submit.Job{Program: "cp", Role: submit.RoleCopy, Template: placed(template), Claims: []kube.Claim{{Name: claim, Path: kube.DefaultMount}}}
	if err := h.image(ctx, cfg, img, &job); err != nil {
		return err
	}
	h.run = &submit.Run{Client: h.client, Report: h.report, StartTimeout: cfg.StartTimeout, Stdout: io.Discard, Stderr: io.Discard, Detach: true}
	// The files of a volume may belong to any user, so the pod runs as root. If the namespace does not allow that, other
	// users need access to the files.
	job.User = "0:0"
	err = h.run.Start(ctx, job)
	if err != nil && strings.Contains(err.Error(), "PodSecurity") {
		job.User, job.Restricted = image.User, true
		err = h.run.Start(ctx, job)
	}
	if err != nil {
		return err
	}
	if _, err := h.run.Follow(ctx, nil); err != nil {
		h.remove()
		return err
	}
	h.report.Clear()
	return nil
}

// placed returns the part of a template that says where pods may run and how they pull images: it applies to copies as well.
func placed(template *corev1.Pod) *corev1.Pod {
	if template == nil {
		return nil
	}
	t := template.Spec
	return &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: t.ImagePullSecrets, ServiceAccountName: t.ServiceAccountName,
		NodeSelector: t.NodeSelector, Tolerations: t.Tolerations, Affinity: t.Affinity}}
}

// image sets what the pod runs: this command if possible, otherwise an image with sh and tar.
func (h *helper) image(ctx context.Context, cfg config.Config, img string, job *submit.Job) error {
	if img == "" && cfg.Registry != "" && runtime.GOOS == "linux" {
		arch, have, err := h.client.Platform(ctx)
		if err != nil {
			return err
		}
		if arch == "" || have[runtime.GOARCH] > 0 {
			cfg.Executable, cfg.BaseImage = "", "" // these settings are for programs
			h.own, job.Args = true, []string{"hold"}
			job.Image, job.Arch, err = submit.Ship(ctx, h.client, cfg, "", h.report)
			return err
		}
	}
	if job.Image = img; img == "" {
		job.Image = tarImage
	}
	job.Command = []string{"sh", "-c", holdScript(busyFile)}
	return nil
}

// sweep removes the pods of copies that were killed.
func (h *helper) sweep(ctx context.Context) {
	found, err := submit.Find(ctx, h.client, false)
	if err != nil {
		return // what is left does no harm
	}
	for _, p := range found.Copies {
		if submit.Ended(&p) {
			_ = h.client.DeletePod(ctx, &p, 0)
		}
	}
}

func (h *helper) remove() {
	if err := h.run.Remove(); err != nil {
		h.report.Say("the pod %s could not be removed; it will end by itself: %v", h.run.Pod(), err)
	}
}

// scripts do what this command does in a pod, in images without it.
var scripts = map[string]string{
	"stat":   `if [ -d "$1" ]; then echo dir; elif [ -e "$1" ]; then echo file; else echo none; fi`,
	"pack":   `(while touch ` + busyFile + `; do sleep 9; done) >/dev/null 2>&1 & t=$!; tar -c -f - -C "$(dirname "$1")" "$(basename "$1")"; c=$?; kill $t; exit $c`,
	"unpack": `(while touch ` + busyFile + `; do sleep 9; done) >/dev/null 2>&1 & t=$!; mkdir -p "$1" && tar -x -f - -C "$1"; c=$?; [ $c = 0 ] || { echo; cat >/dev/null; }; kill $t; exit $c`,
}

// enough closes the archive at the first output of the pod, which means that the pod has failed and needs no more.
type enough struct{ archive *io.PipeWriter }

func (e enough) Write(p []byte) (int, error) { return len(p), e.archive.Close() }

// do runs an operation in the pod.
func (h *helper) do(ctx context.Context, what, path string, in io.Reader, out io.Writer) error {
	command := []string{image.Path, "tar", what, path}
	if !h.own {
		command = []string{"sh", "-c", scripts[what], "sh", path}
	}
	exec, err := executor(h.client, h.run.Pod(), kube.Container, command, in != nil)
	if err != nil {
		return err
	}
	var words bytes.Buffer
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &words})
	if text := strings.TrimSpace(words.String()); err != nil && text != "" && ctx.Err() == nil {
		err = errors.New(strings.TrimPrefix(text, "fiber: "))
	}
	if err != nil && ctx.Err() == nil {
		err = h.client.Explain(err, "create", "pods/exec")
	}
	return err
}

func (h *helper) stat(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	err := h.do(ctx, "stat", path, nil, &out)
	return strings.TrimSpace(out.String()), err
}

func (h *helper) upload(ctx context.Context, from string, to place) error {
	kind, err := h.stat(ctx, to.inPod())
	if err != nil {
		return err
	}
	dir, name := path.Split(to.inPod())
	if kind == "dir" || strings.HasSuffix(to.path, "/") || to.path == "" {
		abs, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		dir, name = to.inPod(), filepath.Base(abs)
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	count := &counter{report: h.report, to: w, last: time.Now()}
	go func() {
		err := pack(count, from, name)
		w.CloseWithError(err)
		packed <- err
	}()
	err = h.do(ctx, "unpack", dir, r, enough{w})
	r.Close()
	if local := <-packed; local != nil && !errors.Is(local, io.ErrClosedPipe) {
		err = local
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	count.end(to.claim + ":" + strings.TrimPrefix(path.Join(dir, name), kube.DefaultMount+"/"))
	return nil
}

func (h *helper) download(ctx context.Context, from place, to string) error {
	kind, err := h.stat(ctx, from.inPod())
	if err != nil {
		return err
	}
	if kind == "none" {
		return fmt.Errorf("the claim %s has no %s", from.claim, from.path)
	}
	dir, name := filepath.Split(to)
	if info, err := os.Stat(to); err == nil && info.IsDir() || strings.HasSuffix(to, "/") {
		dir, name = to, path.Base(from.inPod())
		if from.inPod() == kube.DefaultMount { // the whole claim
			name = from.claim
		}
	}
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	count := &counter{report: h.report, to: w, last: time.Now()}
	got := make(chan error, 1)
	go func() {
		err := h.do(ctx, "pack", from.inPod(), nil, count)
		w.CloseWithError(err)
		got <- err
	}()
	if err = unpack(r, dir, name); err != nil {
		cancel() // the rest is not needed
	}
	_, _ = io.Copy(io.Discard, r) // the archive's padding
	r.CloseWithError(err)
	if remote := <-got; remote != nil && (err == nil || errors.Is(err, remote)) {
		err = remote
	}
	if err != nil {
		return fmt.Errorf("copying %s:%s: %w", from.claim, from.path, err)
	}
	count.end(filepath.Join(dir, name))
	return nil
}

// counter reports how much has been copied.
type counter struct {
	report *submit.Report
	to     io.Writer
	n      int64
	last   time.Time
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	if time.Since(c.last) > 200*time.Millisecond {
		c.last = time.Now()
		c.report.Passing("copied %s", submit.Amount(c.n))
	}
	return n, err
}

func (c *counter) end(where string) { c.report.Say("copied %s to %s", submit.Amount(c.n), where) }
