package submit

import (
	"context"
	"errors"
	"time"

	"github.com/fiber-go/fiber/internal/image"
	"github.com/fiber-go/fiber/internal/kube"
)

// Group is the one that the programs of images made here run as, unless their base has another.
const Group = 65532

// Parcel is an executable that is to be an image of a registry.
type Parcel struct {
	Executable string // "" is the running one
	Base       string // the image that it is put on; "" is none
	Registry   string
	Insecure   bool // see FIBER_REGISTRY_INSECURE
	Report     *Report
}

// ErrNoRegistry is where there is nowhere to put an image.
var ErrNoRegistry = errors.New("FIBER_REGISTRY is not set: the cluster gets the program as an image out of a registry, " +
	"such as registry.example.com/team, that you may push to and its nodes can pull from")

// Ship makes the image, unless the registry has it. It returns its reference by digest and its architecture.
func (p Parcel) Ship(ctx context.Context, c *kube.Client) (ref, arch string, err error) {
	if p.Registry == "" {
		return "", "", ErrNoRegistry
	}
	platform, err := p.platform(ctx, c)
	if err != nil {
		return "", "", err
	}
	opts := image.Options{Executable: p.Executable, Platform: platform}
	if p.Base != "" {
		if opts.Base, err = image.FindBase(ctx, p.Base, platform); err != nil {
			return "", "", err
		}
	}
	img, err := image.New(opts)
	if err != nil {
		return "", "", err
	}
	ref, err = img.Push(ctx, p.Registry, p.Options()...)
	p.Report.Clear()
	return ref, platform.Arch, err
}

// platform is what the cluster runs: the executable's own, if some node has it.
func (p Parcel) platform(ctx context.Context, c *kube.Client) (image.Platform, error) {
	most, have, err := c.Platform(ctx)
	if err != nil {
		return image.Platform{}, err
	}
	own, err := image.PlatformOf(p.Executable)
	if err != nil {
		return own, err
	}
	if have[own.Arch] > 0 || most == "" {
		most = own.Arch
	}
	return image.Platform{OS: "linux", Arch: most}, nil
}

// Options are those of a push.
func (p Parcel) Options() []image.PushOption {
	begun, told := time.Now(), false
	opts := []image.PushOption{image.Progress(func(done, total int64) {
		switch {
		case p.Report.Terminal():
			p.Report.Status("pushing the image to %s: %s of %s", p.Registry, Amount(done), Amount(total))
		case !told:
			told = true
			p.Report.Say("pushing the image to %s", p.Registry)
		case done == total && time.Since(begun) > time.Second:
			p.Report.Status("pushed %s", Amount(total))
		}
	})}
	if p.Insecure {
		opts = append(opts, image.Insecure())
	}
	return opts
}
