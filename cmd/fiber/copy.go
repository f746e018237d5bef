package main

import (
	"bytes"
	"context"
	"crypto/rand"
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

func (p place) String() string { return p.claim + ":" + p.path }

// inPod returns where a place in a claim is in the pod.
func (p place) inPod() string { return path.Join(kube.DefaultMount, path.Join("/", p.path)) }

func (c *copyCommand) Run() error {
	from, to := parsePlace(c.From), parsePlace(c.To)
	switch {
	case c.From == "" || c.To == "":
		return misuse{errors.New("a path is empty: cp needs a source and a destination")}
	case from.claim != "" && to.claim != "":
		return misuse{fmt.Errorf("%s and %s are both in claims: cp copies between a claim and this machine", c.From, c.To)}
	case from.claim == "" && to.claim == "":
		return misuse{fmt.Errorf("neither %s nor %s is in a claim, which is written CLAIM:PATH: cp copies between a claim and this machine", c.From, c.To)}
	}
	if err := checkHere(from, &to); err != nil {
		return err
	}
	cfg, err := settings(config.Config{})
	if err != nil {
		return err
	}
	template, err := kube.Template(cfg.PodTemplate)
	if err != nil {
		return err
	}
	stage := unfinished + strings.ToLower(rand.Text()[:8])
	job := submit.Job{
		Program: "cp", Role: submit.RoleCopy, Image: c.Image, Command: append([]string{"sh", "-c", holdScript("/proc"), "sh"}, to.stages(stage)...),
		Template: placed(template), Claims: []kube.Claim{{Name: from.claim + to.claim, Path: kube.DefaultMount}},
	}
	return c.onCluster(func(ctx context.Context, client *kube.Client) error {
		run := &submit.Run{Client: client, Report: submit.NewReport(os.Stderr), StartTimeout: cfg.StartTimeout, Detach: true}
		h := helper{run, stage}
		if err := h.start(ctx, job); err != nil {
			return err
		}
		if from.claim != "" {
			defer h.remove(0)
			return h.download(ctx, from, to.path)
		}
		defer h.remove(tidyGrace)
		return h.upload(ctx, from.path, to)
	})
}

// checkHere checks the one of two places that is on this machine, before anything is done. A destination that is a link
// becomes what it leads to.
func checkHere(from place, to *place) error {
	if from.claim == "" {
		return check(from.path)
	}
	kind := kindOf(to.path)
	if real, err := filepath.EvalSymlinks(to.path); err == nil && kind == "file" {
		to.path = real
	}
	return fits(kind == "dir", kind, to.path)
}

// unfinished begins the name of a folder beside the destination, in which a copy is until all of it is there.
const unfinished = ".fiber-cp-"

// stages returns the paths in the pod that a folder of this name may have: the destination's folders need not be there yet.
func (p place) stages(name string) (paths []string) {
	if p.claim == "" {
		return nil
	}
	for dir := p.inPod(); ; dir = path.Dir(dir) {
		if paths = append(paths, path.Join(dir, name)); dir == kube.DefaultMount {
			return paths
		}
	}
}

// helper is the pod that mounts the claim.
type helper struct {
	*submit.Run
	stage string // the name of the folder for an unfinished upload
}

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
		h.remove(0)
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

// tidyGrace is how many seconds the pod may take to remove an unfinished upload. It ends as soon as that is done.
const tidyGrace = 600

func (h helper) remove(grace int64) {
	if err := h.Remove(grace); err != nil {
		h.Report.Say("the pod %s could not be removed; it will end by itself: %v", h.Pod(), err)
	}
}

// holdScript returns the program of the pod, whose arguments are where an upload may be unfinished. It ends on SIGTERM, or
// within three minutes if there are no more processes in proc than at first: then nothing is copied, and its fiber cp is
// gone. At its end it removes an unfinished upload. The first try fails if tar makes one more file meanwhile.
func holdScript(proc string) string {
	return fmt.Sprintf(`count() { set -- %s/[0-9]*; n=$#; }
		trap 'kill $!; exit 143' TERM
		trap 'for s; do [ ! -d "$s" ] || rm -rf "$s" || { sleep 1; rm -rf "$s"; }; done' EXIT
		count; first=$n
		while sleep 90 & wait $!; count; [ $n -gt $first ]; do :; done`, proc)
}

// scripts run in the pod. Folder writes the owner of a folder and its path, or those of the one that it will be made in.
// Unpacked files get that owner if pod and volume allow it. Unpack writes into a folder of its own. It moves the files to where
// they belong when the archive's last file is here, which is named like that folder: files replace files, and folders are
// merged. An error makes it write a line, and read on until the sender has noticed.
var scripts = map[string]string{
	"stat": `if [ -d "$1" ]; then echo dir; elif [ -f "$1" ]; then echo file; elif [ -e "$1" ]; then echo other; else echo none; fi`,
	"pack": `tar -c -f - -C "$(dirname "$1")" -- "$(basename "$1")"`,
	"folder": `d=$1
		while [ ! -e "$d" ] && [ ! -L "$d" ]; do d=$(dirname "$d"); done
		[ -d "$d" ] || { echo "$d is not a folder" >&2; exit 1; }
		stat -L -c "%u %g" "$d" && echo "$d"`,
	"unpack": `merge() {
			from=$1 to=$2
			set --
			for e in "$from"/* "$from"/.[!.]* "$from"/..?*; do
				old=$to/${e##*/}
				if [ -d "$e" ] && [ ! -L "$e" ] && [ -d "$old" ] && [ ! -L "$old" ]; then
					(merge "$e" "$old")
				elif [ -e "$e" ] || [ -L "$e" ]; then
					set -- "$@" "$e"
					[ $# -lt 100 ] || { mv -f "$@" "$to" && set --; }
				fi || return
			done
			[ $# -eq 0 ] || mv -f "$@" "$to"
		}
		chown "$(stat -L -c %u:%g "$1")" "$1" 2>/dev/null && own= || own=-o
		mkdir "$1/$2" && tar -x $own -f - -C "$1/$2" && rm "$1/$2/$2" && merge "$1/$2" "$1" && rm -r "$1/$2" ||
			{ c=$?; echo; cat >/dev/null; rm -rf "$1/$2"; exit $c; }`,
}

// enough closes the archive at the first output of the pod, which means that the pod has failed and needs no more.
type enough struct{ archive *io.PipeReader }

func (e enough) Write(p []byte) (int, error) { return len(p), e.archive.Close() }

// do runs a script in the pod. A script that reads an archive is not left alone: when ctx ends, so does the archive, and the
// script removes the files that it has written.
func (h helper) do(ctx context.Context, in io.Reader, out io.Writer, script string, args ...string) error {
	command := append([]string{"sh", "-c", lastWords + scripts[script], "sh"}, args...)
	exec, err := h.executor(command, in != nil)
	if err != nil {
		return err
	}
	running := ctx
	if in != nil {
		var cancel context.CancelFunc
		running, cancel = submit.Linger(ctx)
		defer cancel()
	}
	var words bytes.Buffer
	err = exec.StreamWithContext(running, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &words})
	text, err := outcome(words.String(), err)
	switch {
	case err == nil && text != "":
		h.Report.Say("%s", text)
		return nil
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case text != "":
		err = errors.New(text)
	}
	return h.Client.Explain(err, "create", "pods/exec")
}

// lastWords has a script say its exit code before it ends. Without that, a connection that ends with the pod would pass for
// the end of a script that has succeeded.
const lastWords = `trap 'echo "fiber-cp: exit $?" >&2' EXIT
`

// outcome returns what a script has written to stderr but for its last words, and its error, from that of the connection.
func outcome(words string, err error) (text string, _ error) {
	text, code, _ := strings.Cut(words, "fiber-cp: exit ")
	if err == nil && code != "0\n" {
		err = errors.New("the connection to the pod has ended early")
	}
	return strings.TrimSpace(text), err
}

// executor returns what runs a command in the pod, over a web socket or, on older clusters, over SPDY.
func (h helper) executor(command []string, stdin bool) (remotecommand.Executor, error) {
	opts := &corev1.PodExecOptions{Container: kube.Container, Command: command, Stdin: stdin, Stdout: true, Stderr: true}
	address := h.Client.REST.Post().Namespace(h.Client.Namespace).Resource("pods").Name(h.Pod()).SubResource("exec").
		VersionedParams(opts, kube.Parameters()).URL()
	socket, err := remotecommand.NewWebSocketExecutor(h.Client.Config, "GET", address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(h.Client.Config, "POST", address)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, kube.Upgradeless)
}

func (h helper) stat(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	err := h.do(ctx, nil, &out, "stat", path)
	return strings.TrimSpace(out.String()), err
}

// kindOf says of a path on this machine what the script stat says of one in the pod.
func kindOf(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "none"
	case info.IsDir():
		return "dir"
	case info.Mode().IsRegular():
		return "file"
	}
	return "other"
}

// fits finds out whether a file or folder can come to a place where this kind of thing is, before all of it is sent.
func fits(folder bool, kind, place string) error {
	switch {
	case kind == "other":
		return notCopied(place)
	case folder && kind == "file":
		return fmt.Errorf("%s is a file: a folder does not replace it", place)
	case !folder && kind == "dir":
		return fmt.Errorf("%s is a folder: a file does not replace it", place)
	}
	return nil
}

func (h helper) upload(ctx context.Context, from string, to place) error {
	kind, err := h.stat(ctx, to.inPod())
	if err != nil {
		return err
	}
	dir, full := path.Dir(to.inPod()), to.inPod()
	if kind == "dir" || strings.HasSuffix(to.path, "/") {
		abs, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		dir, full = full, path.Join(full, filepath.Base(abs))
		if kind, err = h.stat(ctx, full); err != nil {
			return err
		}
	}
	target := place{to.claim, strings.TrimPrefix(full, kube.DefaultMount+"/")}.String()
	if err := fits(kindOf(from) == "dir", kind, target); err != nil {
		return err
	}
	var answer bytes.Buffer
	if err := h.do(ctx, nil, &answer, "folder", dir); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	s := sending{from: from, end: h.stage}
	owner, there, _ := strings.Cut(strings.TrimSuffix(answer.String(), "\n"), "\n")
	if _, err := fmt.Sscan(owner, &s.uid, &s.gid); err != nil {
		return fmt.Errorf("the owner of %s is %q: %w", dir, owner, err)
	}
	s.name = strings.TrimPrefix(full, there+"/")
	return h.transfer(ctx, from, target, &s.left,
		func(_ context.Context, w io.Writer) error { return s.pack(w) },
		func(ctx context.Context, r *io.PipeReader) error {
			return h.do(ctx, r, enough{r}, "unpack", there, h.stage)
		})
}

func (h helper) download(ctx context.Context, from place, to string) error {
	kind, err := h.stat(ctx, from.inPod())
	switch {
	case err != nil:
		return err
	case kind == "none":
		return fmt.Errorf("the claim %s has no %s", from.claim, from.path)
	case kind == "other":
		return notCopied(from.String())
	}
	dir, name := filepath.Split(to)
	if kindOf(to) == "dir" || strings.HasSuffix(to, "/") {
		dir, name = to, path.Base(from.inPod())
		if from.inPod() == kube.DefaultMount { // the whole claim
			name = from.claim
		}
	}
	full := filepath.Join(dir, name)
	if err := fits(kind == "dir", kindOf(full), full); err != nil {
		return err
	}
	var left leftOut
	return h.transfer(ctx, from.String(), full, &left,
		func(ctx context.Context, w io.Writer) error { return h.do(ctx, nil, w, "pack", from.inPod()) },
		func(_ context.Context, r *io.PipeReader) (err error) {
			left, err = unpack(r, dir, name)
			return err
		})
}

// transfer sends an archive from one end to the other, and reports how much that was and what was left out. The error is that
// of the end which failed first.
func (h helper) transfer(ctx context.Context, from, to string, left *leftOut, produce func(context.Context, io.Writer) error,
	consume func(context.Context, *io.PipeReader) error) error {
	r, w := io.Pipe()
	count := &counter{report: h.Report, to: w, last: time.Now()}
	ends, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })()
	ended := func(err error) error {
		if errors.Is(err, io.ErrClosedPipe) { // the other end knows why
			return nil
		}
		return err
	}
	ends.Go(func() error {
		err := ended(produce(ctx, count))
		if err == nil {
			w.Close()
		}
		return err
	})
	ends.Go(func() error {
		defer r.Close()
		return ended(consume(ctx, r))
	})
	if err := ends.Wait(); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	h.Report.Say("copied %s to %s", submit.Amount(count.n), to)
	if len(*left) > 0 {
		h.Report.Say("%v", *left)
	}
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
