package docker

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/docker/docker/api/types/network"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/address"
)

// desktopHost is Docker Desktop's name for the machine that it runs on.
const desktopHost = "host.docker.internal"

// elsewhere is an address on no machine.
const elsewhere = "192.0.2.1"

// desktop reports whether the engine runs in Docker Desktop's virtual machine.
func desktop(e *engine) bool { return e.info.OperatingSystem == "Docker Desktop" }

// Network returns where containers reach this process: at the setting host; if
// this process is in a container itself, at its own address; if the engine is on
// another machine, at the address from which this one reaches it; or else at
// this machine's address on the containers' network, which is not reachable from
// outside.
func (b *Backend) Network(ctx context.Context) (backend.Network, error) {
	if host := b.cfg.Host; host != "" {
		return backend.Network{Host: host, Bind: address.Own(host)}, nil
	}
	e, err := b.connect(ctx)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	if desktop(e) && !inContainer() {
		return backend.Network{Host: desktopHost, Bind: "127.0.0.1"}, nil
	}
	host, err := b.address(ctx, e)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	return backend.Network{Host: host, Bind: host, Shares: e.here()}, nil
}

// address returns this process's address on the network of the containers.
func (b *Backend) address(ctx context.Context, e *engine) (string, error) {
	switch {
	case b.cfg.DockerNetwork == "host" && e.local && !desktop(e):
		return "127.0.0.1", nil
	case inContainer():
		return address.Towards(elsewhere)
	case !e.local:
		u, err := url.Parse(e.DaemonHost())
		if err != nil {
			return "", err
		}
		return address.Towards(u.Hostname())
	}
	name := cmp.Or(b.cfg.DockerNetwork, network.NetworkBridge)
	details, err := e.NetworkInspect(ctx, name, network.InspectOptions{})
	if err != nil {
		return "", fmt.Errorf("the network of the containers: %w", err)
	}
	if host := within(details); host != "" {
		return host, nil
	}
	// The networks of a rootless engine do not belong to this machine, but lead to it.
	host, err := address.Towards(elsewhere)
	if err != nil {
		return "", fmt.Errorf("this machine has no address on the network %s, and %w; set FIBER_HOST", name, err)
	}
	return host, nil
}

// within returns this machine's address in a subnet of the network, which is that of the network's bridge, "" if it has none.
func within(details network.Inspect) string {
	own, _ := net.InterfaceAddrs() // if this fails, none is known
	for _, c := range details.IPAM.Config {
		subnet, err := netip.ParsePrefix(c.Subnet)
		if err != nil {
			continue
		}
		for _, a := range own {
			if at, err := netip.ParsePrefix(a.String()); err == nil && subnet.Contains(at.Addr()) {
				return at.Addr().String()
			}
		}
	}
	return ""
}

// inContainer reports whether this process is in a container.
func inContainer() bool { return exists("/.dockerenv") || exists("/run/.containerenv") }
