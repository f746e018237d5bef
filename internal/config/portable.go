package config

import (
	"slices"
	"strings"
)

// portable are the variables that mean the same on every machine.
var portable = []string{"GOMAXPROCS", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "TZ", "LANG", "LC_*"}

// Own are Fiber's own variables: a pattern for Portable.
const Own = envPrefix + "*"

// local are variables that describe a machine, or a session there. A container has its own. Those of Fiber are settings,
// which the root of a run on a cluster gets from the configuration.
var local = []string{Own, "PATH", "HOME", "PWD", "OLDPWD", "SHELL", "SHLVL", "USER", "LOGNAME", "USERNAME", "MAIL",
	"HOSTNAME", "HOST", "TMPDIR", "TEMP", "TMP", "_", "DISPLAY", "WAYLAND_DISPLAY", "TERM*", "COLORTERM", "LS_COLORS",
	"INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "MANAGERPID", "SYSTEMD_EXEC_PID", "LISTEN_PID", "LISTEN_FDS",
	"LISTEN_FDNAMES", "LD_PRELOAD", "LD_LIBRARY_PATH", "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOENV",
	"GOBIN", "GOCOVERDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "KUBECONFIG",
	"XDG_*", "SSH_*", "DOCKER_*", "DBUS_*", "SUDO_*", "GPG_*", "TMUX*", "VSCODE_*", "KUBERNETES_*"}

// Portable returns the part of an environment that containers and pods get: the variables that mean the same everywhere,
// and those that the patterns, as in Env, choose or set. "*" chooses all that do not describe the machine. stays are the
// names of those that only a pattern would have sent along, in order.
func Portable(environ, patterns []string) (goes, stays []string) {
	named := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return p == "*" })
	all := len(named) < len(patterns)
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch describes := matches(local, name); {
		case name == "", slices.ContainsFunc(named, func(p string) bool { return strings.HasPrefix(p, name+"=") }):
		case matches(portable, name), matches(named, name), all && !describes:
			goes = append(goes, kv)
		case !describes:
			stays = append(stays, name)
		}
	}
	for _, p := range named {
		if strings.Contains(p, "=") {
			goes = append(goes, p)
		}
	}
	slices.Sort(stays)
	return goes, slices.Compact(stays)
}

// matches reports whether one of the patterns, NAME or PREFIX_*, fits a name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, many := strings.CutSuffix(p, "*")
		return name == p || many && strings.HasPrefix(name, start)
	})
}
