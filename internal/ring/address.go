package ring

import (
	"net"
	"strings"
)

// address returns the IP and the network interface of an endpoint of this
// process: the loopback's if it can be reached only from this machine.
func address(endpoint string) (ip, iface string) {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(endpoint, "tls:"))
	want := net.ParseIP(host)
	if want == nil || want.IsUnspecified() {
		want = net.IPv4(127, 0, 0, 1)
	}
	all, _ := net.Interfaces()
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(want) {
				return want.String(), i.Name
			}
		}
	}
	return want.String(), "lo"
}
