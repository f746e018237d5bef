package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/names"
)

// build builds the image of a Dockerfile in the working directory, and returns its id. A platform of "" is the engine's own.
func (p *plan) build(ctx context.Context, platform string) (id string, err error) {
	file := filepath.Join(p.dir, "id")
	args := []string{"build", "-f", p.source.what, "--iidfile", file}
	if platform != "" {
		args = append(args, "--platform", platform)
	}
	if err := runTool(ctx, exec.CommandContext(ctx, "docker", append(args, ".")...)); err != nil {
		return "", fmt.Errorf("%s does not build: %w", p.source.what, err)
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// push pushes an image of the engine to the registry, under a name that identifies its content.
func (p *plan) push(ctx context.Context, id string) (ref string, err error) {
	_, hash, _ := strings.Cut(id, ":")
	if len(hash) < 32 {
		return "", fmt.Errorf("docker calls the image %q, which is not an id", id)
	}
	saved := func() (v1.Image, error) {
		file := filepath.Join(p.dir, "image.tar")
		if err := runTool(ctx, exec.CommandContext(ctx, "docker", "save", "-o", file, id)); err != nil {
			return nil, fmt.Errorf("taking the image out of the engine: %w", err)
		}
		return tarball.ImageFromPath(file, nil)
	}
	cfg := p.settings
	to := cfg.Registry + "/fiber-" + names.Program(p.source.name) + ":" + hash[:32]
	defer p.report.Clear()
	return image.PushTo(ctx, to, saved, image.PushOptions(cfg, p.report.Pushing(cfg.Registry)))
}
