package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

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
func (i *Image) Push(ctx context.Context, registry string, opts ...PushOption) (ref string, err error) {
	return PushTo(ctx, registry+"/"+i.Name(), func() (v1.Image, error) { return i.image(ctx, true) }, opts...)
}

// PushTo puts any image into a registry under a name with a tag that says what is in it, as Push does. Build is called
// when it is not there.
func PushTo(ctx context.Context, ref string, build func() (v1.Image, error), opts ...PushOption) (string, error) {
	var p pushing
	for _, o := range opts {
		o(&p)
	}
	tag, err := name.NewTag(ref, p.name...)
	if err != nil {
		return "", fmt.Errorf("push the image: %w", err)
	}
	remotes := append(options(ctx, Platform{}), p.remote...)
	host := tag.RegistryStr()
	there, absent := digest(ctx, tag, p.remote...)
	if absent == nil {
		return tag.Digest(there.String()).String(), nil
	}
	var answer *transport.Error
	if !errors.As(absent, &answer) {
		return "", fmt.Errorf("push the image %s: %w", tag, Explain(absent, host))
	}
	img, err := build()
	if err != nil {
		return "", err
	}
	told := p.follow(&remotes)
	err = remote.Write(tag, img, remotes...)
	told()
	if err != nil {
		if wordless(err) {
			err = absent
		}
		return "", fmt.Errorf("push the image %s: %w", tag, Explain(err, host))
	}
	id, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("push the image %s: %w", tag, err)
	}
	return tag.Digest(id.String()).String(), nil
}

// Explain is a registry's error, in words that say what to do where it speaks plain http only, where nobody vouches for
// it, and where it does not take the user's credentials.
func Explain(err error, host string) error {
	var answer *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		said := strings.ToLower(http.StatusText(answer.StatusCode))
		if len(answer.Errors) > 0 && answer.Errors[0].Message != "" {
			said = answer.Errors[0].Message
		}
		return fmt.Errorf("the registry says: %s; docker login %s gives you credentials", said, host)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("the registry speaks plain http only: set FIBER_REGISTRY_INSECURE=true to allow that")
	case strings.Contains(err.Error(), "x509: "):
		return fmt.Errorf("%w; FIBER_REGISTRY_INSECURE=true trusts it all the same", err)
	}
	return err
}

// wordless reports whether err is a registry's answer to a HEAD request, which can't say more than its status.
func wordless(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.Request != nil && answer.Request.Method == http.MethodHead
}
