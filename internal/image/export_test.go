package image

import (
	"context"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// WithLdConf has the linker's configuration be read from another file than /etc/ld.so.conf.
func WithLdConf(o Options, file string) Options {
	o.ldConf = file
	return o
}

// Dialled has a registry be reached by other means than its name.
func Dialled(dial func(ctx context.Context, network, addr string) (net.Conn, error)) PushOption {
	return func(p *pushing) {
		t := remote.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = dial
		p.remote = append(p.remote, remote.WithTransport(t))
	}
}
