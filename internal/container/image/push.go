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

// Insecure allows a registry that speaks plain http, or has a certificate that nobody vouches for.
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

// Progress is told now and then how many bytes of how many have been sent, or were there. It is not called where the
// image is there already.
func Progress(tell func(done, total int64)) PushOption {
	return func(p *pushing) { p.progress = tell }
}

// follow adds what passes progress on. The function that it returns waits for the last of it.
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

// explain is a registry's error, in words that say what to do where it speaks plain http only, where nobody vouches for
// it, and where it does not take the user's credentials.
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
