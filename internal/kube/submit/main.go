package submit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Main runs this program on the cluster, with the arguments of this process, and returns its exit code. The warnings are
// those of the configuration, which does not go along as a whole.
func Main(cfg config.Config, warnings []string) int {
	signals := Signals()
	report := NewReport(os.Stderr)
	for _, w := range warnings {
		report.Say("fiber: %s", w)
	}
	code, err := program(cfg, report, signals)
	if err != nil {
		report.Say("fiber: %v", err)
	}
	return code
}

func program(cfg config.Config, report *Report, signals chan os.Signal) (int, error) {
	client, err := kube.Connect(cfg.KubernetesNamespace)
	if err != nil {
		return 1, err
	}
	job, err := NewJob(client, cfg, programName(cfg.Executable))
	if err != nil {
		return 1, err
	}
	job.Image, job.Args, job.Joined = cfg.Image, os.Args[1:], true
	job.Env = append(append(Settings(cfg), config.MovedKey+"=yes"), job.Env...)
	run := &Run{Client: client, Report: report, StartTimeout: cfg.StartTimeout, Stdout: stdio.Stdout, Stderr: stdio.Stderr, Returned: Returned(cfg)}
	return run.Do(signals, &job, func(ctx context.Context) (err error) {
		if job.Image == "" {
			job.Group, job.Restricted = Group, cfg.BaseImage == ""
			job.Image, job.Arch, err = ship(ctx, client, cfg, report)
		}
		return err
	})
}

// Signals returns a channel of the signals that end a program.
func Signals() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write returns an error instead
	return signals
}

// slowEnd is how long after a first signal its user is told what it waits for.
const slowEnd = time.Second

// Before calls do, which prepares and creates the pod. A signal cancels it, and becomes the exit code; a second signal
// does not wait for its end. A signal that comes too late, because do succeeds all the same, stays in the channel.
func Before(signals chan os.Signal, do func(context.Context) error) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	var slow <-chan time.Time
	for {
		select {
		case <-slow:
			fmt.Fprintln(os.Stderr, "fiber: what is under way has yet to end; a second Ctrl-C ends it at once")
		case err := <-done:
			switch {
			case code != 0 && errors.Is(err, context.Canceled):
				return code, nil
			case err != nil:
				return 1, err
			case code != 0:
				select {
				case signals <- syscall.Signal(code - 128):
				default: // others are in it
				}
			}
			return 0, nil
		case s := <-signals:
			if code != 0 { // a second signal
				return code, nil
			}
			code, slow = 128+int(s.(syscall.Signal)), time.After(slowEnd)
			cancel()
		}
	}
}

// here lists the settings of this machine or of the submission, which do not go along. The root's pod embodies what they
// say, and its children inherit that from it.
var here = []string{"executable", "base_image", "registry", "registry_insecure", "runtime_dir", "host",
	"docker_network", "docker_volumes", "docker_capabilities", "docker_new_privileges", "docker_pids_limit", "root_cpu", "root_memory", "root_gpu",
	"kubernetes_namespace", "kubernetes_volumes", "pod_template"}

// Settings returns the settings that go along with a program, as variables.
func Settings(cfg config.Config) []string {
	except := here
	if !config.Stream(cfg.LogFile) {
		except = append(slices.Clone(here), "log_file")
	}
	files := Returned(cfg)
	env := config.Environ(cfg, append(slices.Clone(except), slices.Collect(maps.Keys(files))...)...)
	for _, key := range slices.Sorted(maps.Keys(files)) {
		env = append(env, "FIBER_"+strings.ToUpper(key)+"="+inPod(files[key]))
	}
	return env
}

// programName returns the name of the program at path; "" is the running one.
func programName(path string) string {
	if path == "" {
		path, _ = os.Executable()
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}
