package config

import (
	"net"
	"regexp"
	"strconv"
	"strings"
)

const (
	// docker allows such names for networks and volumes.
	dockerName = `[a-zA-Z0-9][a-zA-Z0-9_.-]*`
	// The engine knows which capabilities exist.
	capabilityName = `[A-Z][A-Z0-9_]*`
	variable       = `[a-zA-Z_.-][a-zA-Z0-9_.-]*(\*|=.*)?|\*`
	// A host's name in DNS, or in a hosts file, where it may have underscores.
	hostName = `(\w([\w-]*\w)?\.)*\w([\w-]*\w)?\.?`
)

// matching returns the form of the names that match an expression. It is compiled only when a name is tested, which most
// processes never do.
func matching(expression string) form {
	return func(s, _ string) (string, bool) {
		return s, regexp.MustCompile(`^(` + expression + `)$`).MatchString(s)
	}
}

// names returns the form of the names that a cluster allows.
func names(wrong func(string) []string) form {
	return func(s, _ string) (string, bool) { return s, wrong(s) == nil }
}

func network(s, dir string) (string, bool) {
	_, ok := matching(dockerName)(s, dir)
	return s, ok && s != "none"
}

func capability(s, dir string) (string, bool) {
	return matching(capabilityName)(strings.TrimPrefix(strings.ToUpper(s), "CAP_"), dir)
}

func address(s, dir string) (string, bool) {
	if ip := net.ParseIP(s); ip != nil || strings.Trim(s, "0123456789.") == "" {
		return s, ip != nil && !ip.IsUnspecified()
	}
	return matching(hostName)(s, dir)
}

func openListener(s, dir string) (string, bool) {
	if strings.HasPrefix(s, ":") {
		_, ok := listener("0.0.0.0"+s, dir)
		return s, ok
	}
	return listener(s, dir)
}

func listener(s, dir string) (string, bool) {
	host, port, err := net.SplitHostPort(s)
	if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
		return s, false
	}
	_, ok := address(host, dir)
	ip := net.ParseIP(host)
	return s, ok || ip != nil && ip.IsUnspecified()
}
