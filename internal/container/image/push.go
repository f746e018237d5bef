package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// PushOption is an option of Push.
type PushOption func(*pushing)

// pushing is how an image is pushed.
type pushing struct {
	name     []name.Option
	remote   []remote.Option
	progress func(done, total int64)
}

// Insecure allows a registry that speaks plain http, or whose certificate is not trusted.
func Insecure() PushOption {
	return func(p *pushing) {
		p.name = append(p.name, name.Insecure)
		p.remote = append(p.remote, remote.WithTransport(insecureTransport()))
	}
}

// insecureTransport trusts every certificate.
func insecureTransport() http.RoundTripper {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asks for it
	return t
}

// Progress reports now and then how many of the image's bytes are in the registry, sent or there before. It is not called if
// the whole image is there already.
func Progress(tell func(done, total int64)) PushOption {
	return func(p *pushing) { p.progress = tell }
}

// follow adds an option that reports the progress. The function that it returns waits for the last report.
func (p *pushing) follow(opts *[]remote.Option) (told func()) {
	if p.progress == nil {
		return func() {}
	}
	updates := make(chan v1.Update, 64)
	done := make(chan struct{})
	*opts = append(*opts, remote.WithProgress(updates))
	go func() {
		defer close(done)
		for u := range updates {
			p.progress(u.Complete, u.Total)
		}
	}()
	return func() { <-done } // remote.Write closes updates
}

// Push pushes the image to a registry, such as registry.example.com/team, unless it is there already, and returns its
// reference by digest. Layers that the registry has are not sent again. Push uses the user's credentials for docker.
func (i *Image) Push(ctx context.Context, registry string, opts ...PushOption) (ref string, err error) {
	return PushTo(ctx, registry+"/"+i.Name(), func() (v1.Image, error) { return i.image(ctx, true) }, opts...)
}

// PushTo pushes any image to a registry, as Push does. The tag in ref has to identify the image's content. PushTo calls
// build only if the registry does not have the tag.
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
		return "", fmt.Errorf("push the image %s: %w", tag, explain(absent, host))
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
		return "", fmt.Errorf("push the image %s: %w", tag, explain(err, host))
	}
	id, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("push the image %s: %w", tag, err)
	}
	return tag.Digest(id.String()).String(), nil
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

// wordless reports whether err is a registry's answer to a HEAD request, which has no more than a status.
func wordless(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.Request != nil && answer.Request.Method == http.MethodHead
}
