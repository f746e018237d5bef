package kubernetes

import (
	"context"
	"fmt"
	"net/url"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/address"
)

// Network is where pods reach this process: the setting host; its own pod's
// address; or else the address by which it reaches the cluster, which is right
// where the two are in one network.
func (b *Backend) Network(ctx context.Context) (backend.Network, error) {
	if host := b.cfg.Host; host != "" {
		return backend.Network{Host: host, Bind: address.Own(host)}, nil
	}
	c, err := b.connect(ctx)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	if c.self != nil && address.Own(c.self.Status.PodIP) != "" {
		return backend.Network{Host: c.self.Status.PodIP, Bind: c.self.Status.PodIP}, nil
	}
	api, err := url.Parse(c.Config.Host)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	host, err := address.Towards(api.Hostname())
	if err != nil {
		return backend.Network{}, b.failure("", fmt.Errorf("%w; set FIBER_HOST to an address that pods can reach", err))
	}
	return backend.Network{Host: host, Bind: host}, nil
}
