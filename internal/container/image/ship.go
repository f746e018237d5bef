package image

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fiber-go/fiber/internal/config"
)

// ErrNoRegistry is returned if no registry is set to push an image to.
var ErrNoRegistry = errors.New("FIBER_REGISTRY is not set: the cluster gets the program as an image from a registry, such as " +
	"registry.example.com/team, that you may push to and its nodes can pull from")

// Of returns the image of an executable, "" for that of the settings or else the running one, on the base that the settings
// name.
func Of(ctx context.Context, cfg config.Config, executable string, p Platform) (*Image, error) {
	opts := Options{Executable: cmp.Or(executable, cfg.Executable), Platform: p}
	if cfg.BaseImage != "" {
		var err error
		if opts.Base, err = FindBase(ctx, cfg.BaseImage, p); err != nil {
			return nil, err
		}
	}
	return New(opts)
}

// Ship pushes the image that [Of] returns to the registry of the settings, unless it is there, and returns its reference by
// digest. The function progress may be nil; see [Pushing].
func Ship(ctx context.Context, cfg config.Config, executable string, p Platform, progress func(done, total int64)) (ref string, err error) {
	if cfg.Registry == "" {
		return "", ErrNoRegistry
	}
	img, err := Of(ctx, cfg, executable, p)
	if err != nil {
		return "", err
	}
	defer CloseIdle()
	return img.Push(ctx, cfg.Registry, PushOptions(cfg, progress))
}

// PushOptions returns how to push to the registry of the settings. The function progress may be nil.
func PushOptions(cfg config.Config, progress func(done, total int64)) Pushing {
	return Pushing{Insecure: cfg.RegistryInsecure.Enabled(), Progress: progress}
}

// CheckRegistry returns why an image cannot be pushed to the registry of the settings, nil if it can.
func CheckRegistry(cfg config.Config) error {
	if cfg.Registry == "" {
		return ErrNoRegistry
	}
	var opts []name.Option
	transport := remote.DefaultTransport
	if cfg.RegistryInsecure.Enabled() {
		opts, transport = append(opts, name.Insecure), insecureTransport()
	}
	ref, err := name.ParseReference(cfg.Registry+"/fiber-doctor", opts...)
	if err != nil {
		return err
	}
	return explain(remote.CheckPushPermission(ref, authn.DefaultKeychain, transport), ref.Context().RegistryStr())
}

// CloseIdle closes unused connections to registries, which otherwise stay open for a while.
func CloseIdle() { (&http.Client{Transport: remote.DefaultTransport}).CloseIdleConnections() }
