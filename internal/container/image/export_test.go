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

// Dialled returns how to reach a registry through dial instead of by its name.
func Dialled(how Pushing, dial func(ctx context.Context, network, addr string) (net.Conn, error)) Pushing {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = dial
	how.remote = append(how.remote, remote.WithTransport(t))
	return how
}
