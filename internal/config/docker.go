package config

import (
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// dockerName is what docker lets networks and volumes be called.
var dockerName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

var dockerNetwork = kind[string]{
	name:    "name",
	allowed: always("the name of a network other than none"),
	parse:   verbatim,
	check: func(s string) (string, error) {
		switch {
		case s == "none":
			return "", errors.New("connects containers to nothing")
		case !dockerName.MatchString(s):
			return "", errors.New("is no name of a network")
		}
		return s, nil
	},
	format: identity,
}

// hostName is a host's name in DNS, or one out of a hosts file, which may have underscores.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?$`)

var hostAddress = kind[string]{
	name:    "address",
	allowed: always("an IP address or the name of a host, without a port"),
	parse:   verbatim,
	check: func(s string) (string, error) {
		if ip := net.ParseIP(s); ip != nil {
			if ip.IsUnspecified() {
				return "", errors.New("is every address, and none to be reached at")
			}
			return s, nil
		}
		if host, port, err := net.SplitHostPort(s); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
			return "", fmt.Errorf("has the port %s; write %q", port, host)
		}
		if numbers := strings.Trim(s, "0123456789.") == ""; numbers || !hostName.MatchString(s) {
			return "", errors.New("is no address")
		}
		return s, nil
	},
	format: identity,
}

var volumes = kind[[]string]{
	name:    "list",
	allowed: always("host:container or host:container:ro, several with commas between; host is a path or the name of a volume, container an absolute path"),
	parse:   parseList,
	check: func(list []string) ([]string, error) {
		checked := make([]string, len(list))
		taken := map[string]bool{}
		for i, item := range list {
			host, inside, mode, err := cutVolume(item)
			if err == nil && taken[inside] {
				err = fmt.Errorf("has two volumes at %s", inside)
			}
			if err != nil {
				return nil, err
			}
			taken[inside] = true
			checked[i] = host + ":" + inside + mode
		}
		return checked, nil
	},
	format: formatList,
	locate: func(list []string, dir string) ([]string, error) {
		located := make([]string, len(list))
		for i, item := range list {
			host, inside, mode, err := cutVolume(item)
			if err != nil {
				return nil, err
			}
			// Whether it is there is the engine's to say: it may be on another machine.
			if !dockerName.MatchString(host) {
				host = under(dir, host)
			}
			located[i] = host + ":" + inside + mode
		}
		return located, nil
	},
}

// cutVolume splits host:container[:ro]. The mode is "" or ":ro".
func cutVolume(item string) (host, inside, mode string, err error) {
	parts := strings.Split(item, ":")
	if drive := filepath.VolumeName(item); drive != "" && len(parts) > 1 {
		parts = append([]string{parts[0] + ":" + parts[1]}, parts[2:]...) // C:\data
	}
	if len(parts) == 3 && parts[2] == "rw" {
		parts = parts[:2]
	}
	switch {
	case len(parts) < 2 || len(parts) > 3 || parts[0] == "":
		return "", "", "", fmt.Errorf("has %q in it, which is no host:container", item)
	case len(parts) == 3 && parts[2] != "ro":
		return "", "", "", fmt.Errorf("has %q in it, whose last part is neither ro nor rw", item)
	case !isHostPath(parts[0]) && !dockerName.MatchString(parts[0]):
		return "", "", "", fmt.Errorf("has %q in it, whose first part is neither a path, which starts with / or ., nor the name of a volume", item)
	case !path.IsAbs(parts[1]) || path.Clean(parts[1]) == "/":
		return "", "", "", fmt.Errorf("has %q in it, whose second part is no absolute path below /", item)
	case strings.ContainsRune(item, 0):
		return "", "", "", fmt.Errorf("has %q in it, with a zero byte", item)
	}
	if len(parts) == 3 {
		mode = ":ro"
	}
	return parts[0], path.Clean(parts[1]), mode, nil
}

func isHostPath(s string) bool {
	return filepath.IsAbs(s) || s == "." || s == ".." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

var capability = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// capabilities are those that the engine knows, which is its to say.
var capabilities = kind[[]string]{
	name:    "list",
	allowed: always("names of Linux capabilities, such as DAC_OVERRIDE, several with commas between; or ALL"),
	parse:   parseList,
	check: func(list []string) ([]string, error) {
		checked := make([]string, len(list))
		for i, item := range list {
			checked[i] = strings.TrimPrefix(strings.ToUpper(item), "CAP_")
			if !capability.MatchString(checked[i]) {
				return nil, fmt.Errorf("has %q in it, which is no name of a capability", item)
			}
		}
		return checked, nil
	},
	format: formatList,
}

var pidsLimit = kind[int]{
	name:    "number",
	allowed: always("a whole number of processes and threads, at least 1"),
	parse:   parseInt,
	check: func(n int) (int, error) {
		if n < 1 {
			return 0, errors.New("is less than one")
		}
		return n, nil
	},
	format: strconv.Itoa,
}
