package config

import (
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"strings"
)

// form describes names. The expression is compiled only when a name is checked, which most processes never do. The
// length is not part of it: a count would make compiling take a hundred times as long.
type form struct {
	letters string
	longest int    // of the part after the last slash, if any; 0 for any length
	reason  string // the error for other texts
}

func (f form) fits(s string) bool {
	return regexp.MustCompile(`^(`+f.letters+`)$`).MatchString(s) && (f.longest == 0 || len(path.Base(s)) <= f.longest)
}

func (f form) check(s string) (string, error) {
	if !f.fits(s) {
		return "", errors.New(f.reason)
	}
	return s, nil
}

// The names that a cluster allows for namespaces, claims and resources of nodes.
var (
	namespaceName = form{`[a-z0-9]([a-z0-9-]*[a-z0-9])?`, 63, "is not a valid namespace name"}
	claimName     = form{`[a-z0-9]([a-z0-9.-]*[a-z0-9])?`, 253, "whose first part is not a valid claim name"}
	resourceName  = form{`([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?`, 63, "is not a valid resource name"}
)

var (
	// dockerName is for the names that docker allows for networks and volumes.
	dockerName = form{`[a-zA-Z0-9][a-zA-Z0-9_.-]*`, 0, "is not a valid network name"}
	// capabilityName checks the form only: the engine knows which capabilities exist.
	capabilityName = form{`[A-Z][A-Z0-9_]*`, 0, "which is not a valid capability name"}
	variable       = form{`[a-zA-Z_.-][a-zA-Z0-9_.-]*\*?|\*|[a-zA-Z_.-][a-zA-Z0-9_.-]*=.*`, 0, "which does not name a variable"}
	// hostName is for a host's name in DNS or in a hosts file, where it may have underscores.
	hostName = form{`[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?`, 0, "is not an address"}
)

func checkNetwork(s string) (string, error) {
	if s == "none" {
		return "", errors.New("connects containers to nothing")
	}
	return dockerName.check(s)
}

func checkCapability(s string) (string, error) {
	return capabilityName.check(strings.TrimPrefix(strings.ToUpper(s), "CAP_"))
}

func checkAddress(s string) (string, error) {
	if ip := net.ParseIP(s); ip != nil {
		if ip.IsUnspecified() {
			return "", errors.New("stands for all addresses, so it cannot be dialled")
		}
		return s, nil
	}
	if host, port, err := net.SplitHostPort(s); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		return "", fmt.Errorf("has the port %s; write %q", port, host)
	}
	if strings.Trim(s, "0123456789.") == "" {
		return "", errors.New(hostName.reason)
	}
	return hostName.check(s)
}
