// Package address finds addresses of this machine.
package address

import (
	"fmt"
	"net"
)

// Own returns host if it is an address of this machine, at which a listener can
// be opened, and "" otherwise.
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

// Towards returns the address by which this machine reaches another one. It sends
// nothing.
func Towards(host string) (string, error) {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return "", fmt.Errorf("this machine's address is not known: %w", err)
	}
	defer c.Close()
	own, _, err := net.SplitHostPort(c.LocalAddr().String())
	return own, err
}
