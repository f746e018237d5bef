package submit

import (
	"context"
	"time"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
)

// Group is the group that programs in images made here run as, unless their base image sets another.
const Group = 65532

// ship pushes the image of the executable of the settings, or else the running one, to the registry of the settings. It returns
// the image's reference by digest, and its architecture: the executable's own if a node has it, or if the nodes are not known;
// otherwise that of most nodes.
func ship(ctx context.Context, c *kube.Client, cfg config.Config, r *Report) (ref, arch string, err error) {
	if cfg.Registry == "" {
		return "", "", image.ErrNoRegistry
	}
	most, have, err := c.Platform(ctx)
	if err != nil {
		return "", "", err
	}
	platform, err := image.PlatformOf(cfg.Executable)
	if err != nil {
		return "", "", err
	}
	platform.OS = "linux"
	if have[platform.Arch] == 0 && most != "" {
		platform.Arch = most
	}
	ref, err = Ship(ctx, cfg, platform, r)
	return ref, platform.Arch, err
}

// Ship pushes the image of the executable of the settings, as [image.Ship] does, and reports the progress.
func Ship(ctx context.Context, cfg config.Config, p image.Platform, r *Report) (ref string, err error) {
	defer r.Clear()
	return image.Ship(ctx, cfg, "", p, r.Pushing(cfg.Registry))
}

// Pushing returns a function that reports the progress of pushing an image.
func (r *Report) Pushing(registry string) func(done, total int64) {
	begun, told := time.Now(), false
	return func(done, total int64) {
		switch {
		case r.terminal:
			r.Status("pushing the image to %s: %s of %s", registry, Amount(done), Amount(total))
		case !told:
			told = true
			r.Say("pushing the image to %s", registry)
		case done == total && time.Since(begun) > time.Second:
			r.Status("pushed %s", Amount(total))
		}
	}
}
