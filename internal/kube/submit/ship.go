package submit

import (
	"cmp"
	"context"
	"time"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
)

// Group is the one that the programs of images made here run as, unless their base has another.
const Group = 65532

// Ship has the cluster's registry have the image of an executable, "" for that of the settings or the running one. It
// returns its reference by digest and its architecture.
func Ship(ctx context.Context, c *kube.Client, cfg config.Config, executable string, r *Report) (ref, arch string, err error) {
	if cfg.Registry == "" {
		return "", "", image.ErrNoRegistry
	}
	platform, err := platform(ctx, c, cmp.Or(executable, cfg.Executable))
	if err != nil {
		return "", "", err
	}
	ref, err = image.Ship(ctx, cfg, executable, platform, r.Pushing(cfg.Registry))
	r.Clear()
	return ref, platform.Arch, err
}

// platform is what the cluster runs: the executable's own, if some node has it.
func platform(ctx context.Context, c *kube.Client, executable string) (image.Platform, error) {
	most, have, err := c.Platform(ctx)
	if err != nil {
		return image.Platform{}, err
	}
	own, err := image.PlatformOf(executable)
	if err != nil {
		return own, err
	}
	if have[own.Arch] > 0 || most == "" {
		most = own.Arch
	}
	return image.Platform{OS: "linux", Arch: most}, nil
}

// Pushing says how far the push of an image is.
func (r *Report) Pushing(registry string) func(done, total int64) {
	begun, told := time.Now(), false
	return func(done, total int64) {
		switch {
		case r.Terminal():
			r.Status("pushing the image to %s: %s of %s", registry, Amount(done), Amount(total))
		case !told:
			told = true
			r.Say("pushing the image to %s", registry)
		case done == total && time.Since(begun) > time.Second:
			r.Status("pushed %s", Amount(total))
		}
	}
}
