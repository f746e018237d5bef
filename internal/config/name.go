package config

import (
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"strings"
)

// form is what names are like. The expression is compiled when a name is checked, which most processes never do; a count
// in it would make that take a hundred times as long.
type form struct {
	letters string
	longest int    // behind a slash, where there is one; 0 is any length
	reason  string // why another text is wrong
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

// What a cluster lets a namespace, a claim and a resource of a node be called.
var (
	namespaceName = form{`[a-z0-9]([a-z0-9-]*[a-z0-9])?`, 63, "is no name of a namespace"}
	claimName     = form{`[a-z0-9]([a-z0-9.-]*[a-z0-9])?`, 253, "whose first part is no name of a claim"}
	resourceName  = form{`([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?`, 63, "is no name of a resource"}
)

var (
	// dockerName is what docker lets networks and volumes be called.
	dockerName = form{`[a-zA-Z0-9][a-zA-Z0-9_.-]*`, 0, "is no name of a network"}
	// capabilityName does not say which capabilities there are: that is the engine's to say.
	capabilityName = form{`[A-Z][A-Z0-9_]*`, 0, "which is no name of a capability"}
	variable       = form{`[a-zA-Z_.-][a-zA-Z0-9_.-]*\*?|\*|[a-zA-Z_.-][a-zA-Z0-9_.-]*=.*`, 0, "which names no variable"}
	// hostName is a host's name in DNS, or one out of a hosts file, which may have underscores.
	hostName = form{`[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?`, 0, "is no address"}
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
			return "", errors.New("is every address, and none to be reached at")
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
