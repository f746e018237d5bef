package docker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"

	"github.com/docker/docker/api/types/network"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/address"
)

// desktopHost is Docker Desktop's name for the machine that it runs on.
const desktopHost = "host.docker.internal"

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
	found, err := b.network(ctx, e)
	if err != nil {
		return backend.Network{}, b.failure("", err)
	}
	return found, nil
}

func (b *Backend) network(ctx context.Context, e *engine) (backend.Network, error) {
	switch {
	case b.cfg.DockerNetwork == "host" && e.local && !desktop(e):
		return backend.Network{Host: "127.0.0.1", Bind: "127.0.0.1"}, nil
	case inContainer():
		host, err := address.Towards("192.0.2.1")
		return backend.Network{Host: host, Bind: host}, err
	case desktop(e):
		return backend.Network{Host: desktopHost, Bind: "127.0.0.1"}, nil
	case !e.local:
		u, err := url.Parse(e.DaemonHost())
		if err != nil {
			return backend.Network{}, err
		}
		host, err := address.Towards(u.Hostname())
		return backend.Network{Host: host, Bind: host}, err
	}
	name := b.cfg.DockerNetwork
	if name == "" {
		name = network.NetworkBridge
	}
	details, err := e.NetworkInspect(ctx, name, network.InspectOptions{})
	if err != nil {
		return backend.Network{}, fmt.Errorf("the network of the containers: %w", err)
	}
	for _, host := range gateways(details) {
		if address.Own(host) != "" {
			return backend.Network{Host: host, Bind: host}, nil
		}
	}
	// The networks of a rootless engine do not belong to this machine, but lead to it.
	host, err := address.Towards("192.0.2.1")
	if err != nil {
		return backend.Network{}, fmt.Errorf("this machine has no address on the network %s, and %w; set FIBER_HOST", name, err)
	}
	return backend.Network{Host: host, Bind: host}, nil
}

// gateways returns the addresses that this machine may have on a network of the
// engine. After its first start an engine does not report the address of its
// bridge, so that is also read from the bridge itself.
func gateways(details network.Inspect) (hosts []string) {
	for _, c := range details.IPAM.Config {
		if c.Gateway != "" {
			hosts = append(hosts, c.Gateway)
		}
	}
	if bridge, err := net.InterfaceByName(details.Options["com.docker.network.bridge.name"]); err == nil {
		addresses, _ := bridge.Addrs()
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
				hosts = append(hosts, ip.IP.String())
			}
		}
	}
	for _, c := range details.IPAM.Config {
		if subnet, err := netip.ParsePrefix(c.Subnet); err == nil {
			hosts = append(hosts, subnet.Masked().Addr().Next().String())
		}
	}
	return hosts
}

// inContainer reports whether this process is in a container.
func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}
