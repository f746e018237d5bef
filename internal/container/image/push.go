package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Pushing says how an image is pushed.
type Pushing struct {
	// Insecure allows a registry that speaks plain http, or whose certificate is not trusted.
	Insecure bool
	// Progress, unless it is nil, is told now and then how many of the image's bytes are in the registry, sent or there
	// before. It is not called if the whole image is there already.
	Progress func(done, total int64)

	remote []remote.Option // for tests
}

// insecureTransport trusts every certificate.
func insecureTransport() http.RoundTripper {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asks for it
	return t
}

// Push pushes the image to a registry, such as registry.example.com/team, unless it is there already, and returns its
// reference by digest. Layers that the registry has are not sent again. Push uses the user's credentials for docker.
func (i *Image) Push(ctx context.Context, registry string, how Pushing) (ref string, err error) {
	return PushTo(ctx, registry+"/"+i.Name(), func() (v1.Image, error) { return i.image(ctx, true) }, how)
}

// PushTo pushes any image to a registry, as Push does. The tag in ref has to identify the image's content. PushTo calls
// build only if the registry does not have the tag.
func PushTo(ctx context.Context, ref string, build func() (v1.Image, error), how Pushing) (string, error) {
	var names []name.Option
	opts := options(ctx, Platform{})
	if how.Insecure {
		names, opts = append(names, name.Insecure), append(opts, remote.WithTransport(insecureTransport()))
	}
	opts = append(opts, how.remote...)
	tag, err := name.NewTag(ref, names...)
	if err != nil {
		return "", fmt.Errorf("push the image: %w", err)
	}
	host := tag.RegistryStr()
	there, absent := digest(tag, opts)
	if absent == nil {
		return tag.Digest(there.String()).String(), nil
	}
	var answer *transport.Error
	if !errors.As(absent, &answer) {
		return "", fmt.Errorf("push the image %s: %w", tag, explain(absent, host))
	}
	img, err := build()
	if err != nil {
		return "", err
	}
	if err := how.write(tag, img, opts); err != nil {
		if errors.As(err, &answer) && answer.Request != nil && answer.Request.Method == http.MethodHead {
			err = absent // an answer to HEAD has no words
		}
		return "", fmt.Errorf("push the image %s: %w", tag, explain(err, host))
	}
	id, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("push the image %s: %w", tag, err)
	}
	return tag.Digest(id.String()).String(), nil
}

// write writes the image to the registry, and reports the progress.
func (p Pushing) write(tag name.Tag, img v1.Image, opts []remote.Option) error {
	if p.Progress == nil {
		return remote.Write(tag, img, opts...)
	}
	updates := make(chan v1.Update, 64) // remote.Write closes it
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() {
		for u := range updates {
			p.Progress(u.Complete, u.Total)
		}
	})
	return remote.Write(tag, img, append(opts, remote.WithProgress(updates))...)
}

// explain adds to a registry's error what to do, if the registry speaks only plain http, has a certificate that is not
// trusted, or rejects the user's credentials.
func explain(err error, host string) error {
	var answer *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		said := strings.ToLower(http.StatusText(answer.StatusCode))
		if len(answer.Errors) > 0 && answer.Errors[0].Message != "" {
			said = answer.Errors[0].Message
		}
		return fmt.Errorf("the registry says: %s; log in with docker login %s", said, host)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("the registry speaks plain http only: set FIBER_REGISTRY_INSECURE=true to allow that")
	case strings.Contains(err.Error(), "x509: "):
		return fmt.Errorf("%w; to trust it anyway, set FIBER_REGISTRY_INSECURE=true", err)
	}
	return err
}
