package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/container/image"
)

// prepared is an image that pods can run.
type prepared struct {
	name    string
	command []string // nil for the image's own entrypoint
	own     bool     // made here without a base: only the program, which does not run as root
}

// image returns the image for an executable, "" for the running one: the image
// that the user names; that of this process's own pod; or one that is made and
// pushed, once.
func (b *Backend) image(ctx context.Context, c *cluster, executable string) (prepared, error) {
	executable = cmp.Or(executable, b.cfg.Executable)
	switch {
	case b.cfg.Image != "":
		return prepared{name: b.cfg.Image}, nil
	case c.self != nil && executable == "":
		path, err := os.Executable()
		if err != nil {
			return prepared{}, lives.Refuse(err)
		}
		return prepared{name: ownImage(c.self), command: []string{path}}, nil
	}
	return b.images.Do(ctx, executable, func() (prepared, error) {
		platform, err := image.PlatformOf(executable)
		if err != nil {
			return prepared{}, lives.Refuse(err)
		}
		ref, err := image.Ship(ctx, b.cfg, executable, platform, nil)
		switch {
		case err == nil:
			return prepared{name: ref, own: b.cfg.BaseImage == ""}, nil
		case ctx.Err() != nil:
			return prepared{}, ctx.Err()
		case errors.Is(err, image.ErrNoRegistry):
			err = fmt.Errorf("%w; or FIBER_IMAGE names an image that has the program", err)
		}
		return prepared{}, lives.Refuse(err)
	})
}
