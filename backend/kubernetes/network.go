package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/url"

	"github.com/fiber-go/fiber/backend"
)

// Network is where pods reach this process: Options.Host; its own pod's
// address; or else the address by which it reaches the cluster, which is right
// where the two are in one network.
func (b *Backend) Network(ctx context.Context) (backend.Network, error) {
	if host := b.opts.Host; host != "" {
		return backend.Network{Host: host, Bind: bindable(host)}, nil
	}
	c, err := b.connect(ctx)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	if c.self != nil && bindable(c.self.Status.PodIP) != "" {
		return backend.Network{Host: c.self.Status.PodIP, Bind: c.self.Status.PodIP}, nil
	}
	api, err := url.Parse(c.Config.Host)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	host, err := outward(api.Hostname())
	if err != nil {
		return backend.Network{}, b.failure("", fmt.Errorf("%w; set FIBER_HOST to an address that pods can reach", err))
	}
	return backend.Network{Host: host, Bind: host}, nil
}

// bindable gives a host that is an address of this machine, "" for any other.
func bindable(host string) string {
	ip := net.ParseIP(host)
	addresses, err := net.InterfaceAddrs()
	if ip == nil || err != nil {
		return ""
	}
	for _, a := range addresses {
		if own, ok := a.(*net.IPNet); ok && own.IP.Equal(ip) {
			return host
		}
	}
	return ""
}

// outward is the address of this machine towards another one; nothing is sent.
func outward(host string) (string, error) {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return "", fmt.Errorf("this machine's address is not known: %w", err)
	}
	defer c.Close()
	own, _, err := net.SplitHostPort(c.LocalAddr().String())
	return own, err
}
