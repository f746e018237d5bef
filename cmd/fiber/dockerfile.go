package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/names"
)

// build builds the image of a Dockerfile in the working directory, and returns its id. A platform of "" is the engine's own.
func (s source) build(ctx context.Context, platform string) (id string, err error) {
	dir, err := os.MkdirTemp("", "fiber-build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "id")
	args := []string{"build", "-f", s.what, "--iidfile", file}
	if platform != "" {
		args = append(args, "--platform", platform)
	}
	if err := runDocker(ctx, append(args, ".")...); err != nil {
		return "", fmt.Errorf("%s does not build: %w", s.what, err)
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// runDocker runs the docker command. Its output goes to stderr.
func runDocker(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("the docker command is not in PATH")
	case errors.As(err, &exit):
		return errors.New("see docker's output above")
	}
	return err
}

// pushBuilt pushes an image of the engine to the registry, under a name that identifies its content.
func pushBuilt(ctx context.Context, id, name string, cfg config.Config, report *submit.Report) (ref string, err error) {
	_, hash, _ := strings.Cut(id, ":")
	if len(hash) < 32 {
		return "", fmt.Errorf("docker calls the image %q, which is not an id", id)
	}
	dir, err := os.MkdirTemp("", "fiber-push")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	saved := func() (v1.Image, error) {
		file := filepath.Join(dir, "image.tar")
		if err := runDocker(ctx, "save", "-o", file, id); err != nil {
			return nil, fmt.Errorf("taking the image out of the engine: %w", err)
		}
		return tarball.ImageFromPath(file, nil)
	}
	to := cfg.Registry + "/fiber-" + names.Program(name) + ":" + hash[:32]
	ref, err = image.PushTo(ctx, to, saved, image.PushOptions(cfg, report.Pushing(cfg.Registry))...)
	report.Clear()
	return ref, err
}
