package image

import (
	"context"
	"net"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Image returns the image as it is saved.
func (i *Image) Image(ctx context.Context) (v1.Image, error) { return i.image(ctx, false) }

// WithLdConf reads the linker's configuration from another file than /etc/ld.so.conf.
func WithLdConf(o Options, file string) Options {
	o.ldConf = file
	return o
}

// Dialled reaches a registry through dial instead of by its name.
func Dialled(dial func(ctx context.Context, network, addr string) (net.Conn, error)) PushOption {
	return func(p *pushing) {
		t := remote.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = dial
		p.remote = append(p.remote, remote.WithTransport(t))
	}
}
