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
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type copyCommand struct {
	where
	Image string `placeholder:"IMAGE" default:"busybox:1.37" help:"The image of the pod that copies; it needs sh and tar."`
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
	cfg, err := settings(config.Config{})
	if err != nil {
		return err
	}
	template, err := kube.Template(cfg.PodTemplate)
	if err != nil {
		return err
	}
	job := submit.Job{
		Program: "cp", Role: submit.RoleCopy, Image: c.Image, Command: []string{"sh", "-c", holdScript("/proc")},
		Template: placed(template), Claims: []kube.Claim{{Name: from.claim + to.claim, Path: kube.DefaultMount}},
	}
	return c.onCluster(func(ctx context.Context, client *kube.Client) error {
		h := helper{&submit.Run{Client: client, Report: submit.NewReport(os.Stderr), StartTimeout: cfg.StartTimeout, Detach: true}}
		if err := h.start(ctx, job); err != nil {
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
type helper struct{ *submit.Run }

func (h helper) start(ctx context.Context, job submit.Job) error {
	claim := job.Claims[0].Name
	if _, err := h.Client.Claim(ctx, claim); apierrors.IsNotFound(err) {
		if err := h.Client.Missing(ctx); err != nil {
			return err
		}
		return fmt.Errorf("the namespace %s has no claim %s", h.Client.Namespace, claim)
	}
	// The files of a volume may belong to any user, so the pod runs as root. If the namespace does not allow that, other
	// users need access to the files.
	job.User = "0:0"
	err := h.Start(ctx, job)
	if err != nil && strings.Contains(err.Error(), "PodSecurity") {
		job.User, job.Restricted = image.User, true
		err = h.Start(ctx, job)
	}
	if err != nil {
		return err
	}
	if _, err := h.Follow(ctx, nil); err != nil {
		h.remove()
		if strings.Contains(err.Error(), "ImagePull") {
			err = fmt.Errorf("%w; --image names another image with sh and tar", err)
		}
		return err
	}
	h.Report.Clear()
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

func (h helper) remove() {
	if err := h.Remove(0); err != nil {
		h.Report.Say("the pod %s could not be removed; it will end by itself: %v", h.Pod(), err)
	}
}

// holdScript returns the program of the pod. It ends within three minutes if there are no more processes in proc than at
// first: then nothing is copied, and its fiber cp is gone.
func holdScript(proc string) string {
	return fmt.Sprintf("set -- %[1]s/[0-9]*; n=$#; while sleep 90; set -- %[1]s/[0-9]*; [ $# -gt $n ]; do :; done", proc)
}

// scripts are what is done in the pod. Folder makes a folder, if need be, and writes its owner, which files that are
// unpacked there get if pod and volume allow that. An error makes unpack write a line, and read on until the sender has
// noticed it.
var scripts = map[string]string{
	"stat":   `if [ -d "$1" ]; then echo dir; elif [ -e "$1" ]; then echo file; else echo none; fi`,
	"pack":   `tar -c -f - -C "$(dirname "$1")" -- "$(basename "$1")"`,
	"folder": `mkdir -p "$1" && stat -c "%u %g" "$1"`,
	"unpack": `chown "$(stat -c %u:%g "$1")" "$1" 2>/dev/null && own= || own=-o
		tar -x $own -f - -C "$1" || { c=$?; echo; cat >/dev/null; exit $c; }`,
}

// enough closes the archive at the first output of the pod, which means that the pod has failed and needs no more.
type enough struct{ archive *io.PipeReader }

func (e enough) Write(p []byte) (int, error) { return len(p), e.archive.Close() }

// do runs a script in the pod.
func (h helper) do(ctx context.Context, in io.Reader, out io.Writer, script string, args ...string) error {
	command := append([]string{"sh", "-c", scripts[script], "sh"}, args...)
	exec, err := executor(h.Client, h.Pod(), command, in != nil)
	if err != nil {
		return err
	}
	var words bytes.Buffer
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &words})
	if err == nil || ctx.Err() != nil {
		return err
	}
	if text := strings.TrimSpace(words.String()); text != "" {
		err = errors.New(text)
	}
	return h.Client.Explain(err, "create", "pods/exec")
}

func (h helper) stat(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	err := h.do(ctx, nil, &out, "stat", path)
	return strings.TrimSpace(out.String()), err
}

func (h helper) upload(ctx context.Context, from string, to place) error {
	kind, err := h.stat(ctx, to.inPod())
	if err != nil {
		return err
	}
	dir, name := path.Split(to.inPod())
	if kind == "dir" || strings.HasSuffix(to.path, "/") {
		abs, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		dir, name = to.inPod(), filepath.Base(abs)
	}
	var owner bytes.Buffer
	if err := h.do(ctx, nil, &owner, "folder", dir); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	var uid, gid int
	if _, err := fmt.Sscan(owner.String(), &uid, &gid); err != nil {
		return fmt.Errorf("the owner of %s is %q: %w", dir, owner.String(), err)
	}
	return h.transfer(ctx, from, to.claim+":"+strings.TrimPrefix(path.Join(dir, name), kube.DefaultMount+"/"),
		func(_ context.Context, w io.Writer) error { return pack(w, from, name, uid, gid) },
		func(ctx context.Context, r *io.PipeReader) error { return h.do(ctx, r, enough{r}, "unpack", dir) })
}

func (h helper) download(ctx context.Context, from place, to string) error {
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
	return h.transfer(ctx, from.claim+":"+from.path, filepath.Join(dir, name),
		func(ctx context.Context, w io.Writer) error { return h.do(ctx, nil, w, "pack", from.inPod()) },
		func(_ context.Context, r *io.PipeReader) error { return unpack(r, dir, name) })
}

// transfer sends an archive from one end to the other and reports how much that was. The error is that of the end which
// failed first.
func (h helper) transfer(ctx context.Context, from, to string, produce func(context.Context, io.Writer) error,
	consume func(context.Context, *io.PipeReader) error) error {
	r, w := io.Pipe()
	count := &counter{report: h.Report, to: w, last: time.Now()}
	ends, ctx := errgroup.WithContext(ctx)
	ends.Go(func() error {
		err := produce(ctx, count)
		w.CloseWithError(err)
		if errors.Is(err, io.ErrClosedPipe) { // the other end knows why
			return nil
		}
		return err
	})
	ends.Go(func() error {
		defer r.Close()
		return consume(ctx, r)
	})
	err := ends.Wait()
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	h.Report.Say("copied %s to %s", submit.Amount(count.n), to)
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
