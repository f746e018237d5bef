package kubernetes

import (
	"context"
	"fmt"
	"net/url"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/address"
)

// Network returns where pods reach this process: at the setting host; at the
// address of its own pod; or else at the address from which it reaches the
// cluster, which works if both are in one network.
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
	host := ""
	api, err := url.Parse(c.Config.Host)
	if err == nil {
		host, err = address.Towards(api.Hostname())
	}
	if err != nil {
		return backend.Network{}, b.failure("", fmt.Errorf("%w; set FIBER_HOST to an address that pods can reach", err))
	}
	return backend.Network{Host: host, Bind: host}, nil
}
