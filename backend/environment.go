package backend

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fiber-go/fiber/meta"
)

// Limits returns the variables that tell a Go program how much it may use.
func Limits(r meta.Resources) map[string]string {
	set := map[string]string{}
	if r.CPU > 0 {
		set["GOMAXPROCS"] = strconv.Itoa(int(math.Ceil(r.CPU)))
	}
	if r.Memory > 0 {
		// A tenth is left for memory that the Go runtime does not count.
		set["GOMEMLIMIT"] = fmt.Sprintf("%dKiB", r.Memory*1024*9/10)
	}
	return set
}

// With returns env with the variables of set, which replace those of the same
// name.
func With(env []string, set map[string]string) []string {
	all := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		_, replaced := set[key]
		return replaced
	})
	for key, value := range set {
		all = append(all, key+"="+value)
	}
	return all
}

// hostVariables describe the machine and the session that a program was
// started in. A container keeps its own.
var hostVariables = []string{"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "SHLVL", "USER", "LOGNAME", "USERNAME", "MAIL",
	"HOSTNAME", "HOST", "TMPDIR", "TEMP", "TMP", "_", "DISPLAY", "WAYLAND_DISPLAY", "TERM_PROGRAM", "INVOCATION_ID",
	"JOURNAL_STREAM", "NOTIFY_SOCKET", "MANAGERPID", "SYSTEMD_EXEC_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
	"LD_PRELOAD", "LD_LIBRARY_PATH", "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOENV", "GOBIN",
	"GOCOVERDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

// hostPrefixes are prefixes of such variables.
var hostPrefixes = []string{"XDG_", "SSH_", "DOCKER_", "DBUS_", "SUDO_", "GPG_", "TMUX", "VSCODE_", "KUBERNETES_"}

// Portable returns a job's environment without the variables that describe
// this machine.
func Portable(spec JobSpec) []string {
	env := slices.DeleteFunc(slices.Clone(spec.Env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "" || slices.Contains(hostVariables, key) ||
			slices.ContainsFunc(hostPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
	return append(env, spec.Public...)
}
