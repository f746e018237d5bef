// Package address finds out addresses of this machine.
package address

import (
	"fmt"
	"net"
)

// Own gives a host that is an address of this machine, which can be listened
// at, and "" for any other.
func Own(host string) string {
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

// Towards is the address of this machine by which it reaches another one;
// nothing is sent.
func Towards(host string) (string, error) {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return "", fmt.Errorf("this machine's address is not known: %w", err)
	}
	defer c.Close()
	own, _, err := net.SplitHostPort(c.LocalAddr().String())
	return own, err
}
