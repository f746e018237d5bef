package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/meta"
)

// local runs the plan on this machine.
func (p *plan) local() error {
	if p.source.kind == goPackage {
		return p.packageHere("local")
	}
	return p.start(exec.Command(p.args[0], p.args[1:]...), "local")
}

// docker runs the plan with the docker engine: a package runs on this machine, with its child processes in containers; a
// command runs in a container.
func (p *plan) docker() error {
	if p.source.kind == goPackage {
		return p.packageHere("docker")
	}
	name := p.source.what
	if p.source.kind == dockerfile {
		err := before(p.signals, func(ctx context.Context) (err error) {
			name, err = p.build(ctx, "")
			return err
		})
		if err != nil {
			return err
		}
	}
	label, file := "fiber.command="+names.Unique(p.source.name, 10), filepath.Join(p.dir, "container")
	args := []string{"run", "--rm", "--init", "-i", "--label", label, "--cidfile", file}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		args = append(args, "-t")
	}
	for _, option := range [][2]string{
		{"--cpus", fmt.Sprint(p.settings.RootCPU)},
		{"--memory", fmt.Sprint(int64(p.settings.RootMemory))},
		{"--gpus", fmt.Sprint(p.GPU)},
		{"--name", p.Name},
	} {
		if value := option[1]; value != "" && value != "0" {
			args = append(args, option[0], value)
		}
	}
	claims, err := kube.ParseClaims(p.settings.KubernetesVolumes)
	if err != nil {
		return err
	}
	for _, c := range claims {
		args = append(args, "-v", c.String())
	}
	along, _ := config.Portable(os.Environ(), p.settings.Env)
	for _, kv := range append(along, p.env...) {
		if slices.Contains(os.Environ(), kv) {
			kv, _, _ = strings.Cut(kv, "=") // docker reads the value itself: others may look at its arguments
		}
		args = append(args, "-e", kv)
	}
	if len(p.args) > 0 {
		args = append(args, "--entrypoint", p.args[0])
	}
	args = append(args, name)
	if len(p.args) > 1 {
		args = append(args, p.args[1:]...)
	}
	err = p.start(exec.Command("docker", args...), "")
	var code status
	if errors.As(err, &code) && code > 128 {
		removeContainer(label, file)
	}
	return err
}

// createTime is how long an engine may go on making a container after docker run was interrupted.
const createTime = 5 * time.Second

// removeContainer removes the container of a docker run that a signal has ended before the container had begun. If docker did
// not write its id to the file, the container may be about to be made.
func removeContainer(label, file string) {
	id, _ := os.ReadFile(file)
	for begun := time.Now(); len(id) == 0 && time.Since(begun) < createTime; time.Sleep(createTime / 50) {
		id, _ = exec.Command("docker", "ps", "-aq", "--filter", "label="+label).Output()
	}
	if len(id) > 0 {
		_ = exec.Command("docker", "rm", "-f", strings.TrimSpace(string(id))).Run() // usually it is gone
	}
}

// packageHere builds a package for this machine and runs it.
func (p *plan) packageHere(on string) error {
	var program string
	err := before(p.signals, func(ctx context.Context) (err error) {
		program, err = p.compile(ctx, nil)
		return err
	})
	if err != nil {
		return err
	}
	return p.start(exec.Command(program, p.args...), on)
}

// start runs a command to its end. The terminal's Ctrl-C reaches it by itself.
func (p *plan) start(cmd *exec.Cmd, on string) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if on != "" {
		settings := config.Config{Env: p.settings.Env}
		if p.Dashboard {
			settings.Dashboard = p.settings.Dashboard
		}
		cmd.Env = append(cmd.Env, config.Environ(settings.WithDefaults())...)
		cmd.Env = backend.With(append(cmd.Env, p.env...),
			backend.Limits(meta.Resources{CPU: p.settings.RootCPU, Memory: int(p.settings.RootMemory >> 20)}))
		cmd.Env = append(cmd.Env, "FIBER_BACKEND="+on)
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not in PATH, and is not a Go package", cmd.Path)
		}
		return err
	}
	go func() {
		for s := range p.signals {
			if s == syscall.SIGTERM || !term.IsTerminal(int(os.Stdin.Fd())) {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return status(128 + int(w.Signal()))
	}
	return status(exit.ExitCode())
}
