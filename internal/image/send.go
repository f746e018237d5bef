package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Save writes the image as docker load reads it, under its name. Its own layers are not compressed.
func (i *Image) Save(ctx context.Context, w io.Writer) error {
	tag, err := name.NewTag(i.Name())
	if err != nil {
		return fmt.Errorf("save the image: %w", err)
	}
	img, err := i.image(ctx, false)
	if err != nil {
		return err
	}
	if err := tarball.Write(tag, img, w); err != nil {
		return fmt.Errorf("save the image %s: %w", i.Name(), err)
	}
	return nil
}

// Push puts the image into a registry, such as registry.example.com/team, unless it is there already, and returns its
// reference by digest. Of an image that is not there, the layers that are are not sent again.
// The user's credentials for docker are used.
func (i *Image) Push(ctx context.Context, registry string) (ref string, err error) {
	tag, err := name.NewTag(registry + "/" + i.Name())
	if err != nil {
		return "", fmt.Errorf("push the image: %w", err)
	}
	there, absent := digest(ctx, tag)
	if absent == nil {
		return tag.Digest(there.String()).String(), nil
	}
	img, err := i.image(ctx, true)
	if err != nil {
		return "", err
	}
	if err := remote.Write(tag, img, options(ctx, Platform{})...); err != nil {
		if wordless(err) {
			err = absent
		}
		return "", fmt.Errorf("push the image %s: %w", tag, err)
	}
	id, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("push the image %s: %w", tag, err)
	}
	return tag.Digest(id.String()).String(), nil
}

// wordless reports whether err is a registry's answer to a HEAD request, which can't say more than its status.
func wordless(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.Request != nil && answer.Request.Method == http.MethodHead
}

// Image makes the image, as it is saved.
func (i *Image) Image(ctx context.Context) (v1.Image, error) { return i.image(ctx, false) }
