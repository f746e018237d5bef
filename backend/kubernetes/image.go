package kubernetes

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/fiber-go/fiber/internal/image"
)

// prepared is an image that pods can run.
type prepared struct {
	name    string
	command []string // nil for the image's own entrypoint
	own     bool     // it has nothing but the program, which is not root there
}

// images are those that this process has prepared.
type images struct {
	preparing sync.Mutex // held while one is made and pushed
	ready     map[string]prepared
}

// image gives the image for an executable, "" for the running one: the one
// that the user names; that of this process's own pod; or one that is made.
func (b *Backend) image(ctx context.Context, c *cluster, executable string) (prepared, error) {
	if executable == "" {
		executable = b.cfg.Executable
	}
	switch {
	case b.cfg.Image != "":
		return prepared{name: b.cfg.Image}, nil
	case c.self != nil && executable == "":
		path, err := os.Executable()
		if err != nil {
			return prepared{}, refusal{err}
		}
		return prepared{name: ownImage(c.self), command: []string{path}}, nil
	}
	b.images.preparing.Lock()
	defer b.images.preparing.Unlock()
	if img, ok := b.images.ready[executable]; ok {
		return img, nil
	}
	img, err := b.made(ctx, executable)
	if err != nil {
		return prepared{}, err
	}
	if b.images.ready == nil {
		b.images.ready = map[string]prepared{}
	}
	b.images.ready[executable] = img
	return img, nil
}

// made makes the image of an executable and pushes it to the registry.
func (b *Backend) made(ctx context.Context, executable string) (prepared, error) {
	platform, err := image.PlatformOf(executable)
	if err != nil {
		return prepared{}, refusal{err}
	}
	opts := image.Options{Executable: executable, Platform: platform}
	if b.cfg.Registry == "" {
		return prepared{}, refusal{errors.New("there is no image that a pod could run: set FIBER_REGISTRY to where this program's may be pushed, or FIBER_IMAGE to one that has it")}
	}
	if b.cfg.BaseImage != "" {
		if opts.Base, err = image.FindBase(ctx, b.cfg.BaseImage, platform); err != nil {
			return prepared{}, refusal{err}
		}
	}
	img, err := image.New(opts)
	if err != nil {
		return prepared{}, refusal{err}
	}
	var push []image.PushOption
	if b.cfg.RegistryInsecure.Enabled() {
		push = append(push, image.Insecure())
	}
	defer image.CloseIdle()
	ref, err := img.Push(ctx, b.cfg.Registry, push...)
	if err != nil {
		if ctx.Err() != nil {
			return prepared{}, ctx.Err()
		}
		return prepared{}, refusal{err}
	}
	return prepared{name: ref, own: b.cfg.BaseImage == ""}, nil
}
