package image

import (
	"crypto/tls"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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
		p.remote = append(p.remote, remote.WithTransport(InsecureTransport()))
	}
}

// InsecureTransport trusts every certificate.
func InsecureTransport() http.RoundTripper {
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
