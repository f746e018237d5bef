package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Base is an image that executables are put on.
type Base struct {
	// ID identifies the content: two bases with the same ID are the same.
	ID string
	// Open opens the image. It is called when an image is built on the base; naming one does not need it.
	Open func(context.Context) (v1.Image, error)
}

// FindBase finds the base image that FIBER_BASE_IMAGE names: by an absolute path, of a file as docker save writes it or of
// a directory with an OCI layout, or else by a reference, looked up in its registry with the user's credentials for docker.
// From an image for several platforms it takes the one for p.
func FindBase(ctx context.Context, ref string, p Platform) (*Base, error) {
	base, err := findBase(ctx, ref, p)
	if err != nil {
		return nil, fmt.Errorf("base image %s: %w", ref, err)
	}
	return base, nil
}

func findBase(ctx context.Context, ref string, p Platform) (*Base, error) {
	if filepath.IsAbs(ref) {
		img, err := openBase(ref, p)
		if err != nil {
			return nil, err
		}
		id, err := img.ConfigName()
		return &Base{ID: id.String(), Open: func(context.Context) (v1.Image, error) { return img, nil }}, err
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	id, err := digest(parsed, options(ctx, Platform{}))
	if err != nil {
		return nil, err
	}
	return &Base{ID: id.String(), Open: func(ctx context.Context) (v1.Image, error) {
		img, err := remote.Image(parsed.Context().Digest(id.String()), options(ctx, p)...)
		if err != nil {
			return nil, fmt.Errorf("base image %s: %w", ref, err)
		}
		return img, nil
	}}, nil
}

func openBase(path string, p Platform) (v1.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return tarball.ImageFromPath(path, nil)
	}
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	return platformImage(index, p)
}

// platformImage returns the image for p in an index, or the only one without a platform.
func platformImage(index v1.ImageIndex, p Platform) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		switch {
		case m.MediaType.IsIndex():
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := platformImage(inner, p); err == nil {
				return img, nil
			}
		case m.MediaType.IsImage() && (m.Platform == nil && len(manifest.Manifests) == 1 ||
			m.Platform != nil && m.Platform.OS == p.OS && m.Platform.Architecture == p.Arch):
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("has no image for %s", p)
}

// digest returns an image's digest: from the reference if it has one, or else from the registry.
func digest(ref name.Reference, opts []remote.Option) (v1.Hash, error) {
	if d, ok := ref.(name.Digest); ok {
		return v1.NewHash(d.DigestStr())
	}
	if d, err := remote.Head(ref, opts...); err == nil {
		return d.Digest, nil
	}
	d, err := remote.Get(ref, opts...) // unlike Head, its error has the registry's words
	if err != nil {
		return v1.Hash{}, err
	}
	return d.Digest, nil
}

func options(ctx context.Context, p Platform) []remote.Option {
	o := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("fiber"),
	}
	if p != (Platform{}) {
		o = append(o, remote.WithPlatform(v1.Platform{OS: p.OS, Architecture: p.Arch}))
	}
	return o
}
