package docker

import (
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/pid1"
)

// The labels of Fiber's containers.
const (
	labelRun     = "fiber.run"     // the run's id
	labelName    = "fiber.name"    // the process's name
	labelParent  = "fiber.parent"  // the name of the process that started it
	labelSession = "fiber.session" // which backend made it
	labelMaster  = "fiber.master"  // the run's first process; see master
)

// container says what the engine is to make.
func (b *Backend) container(e *engine, img prepared, spec backend.JobSpec) (*container.Config, *container.HostConfig) {
	set := backend.Limits(spec.Resources)
	if !e.hasInit {
		maps.Copy(set, pid1.Environment())
	}
	config := &container.Config{
		Image:      img.name,
		Entrypoint: img.entrypoint,
		Cmd:        spec.Args,
		Env:        backend.With(portable(spec.Env), set),
		// The process that was started ends by the first of these.
		StopSignal: "SIGTERM",
		Labels: map[string]string{labelRun: spec.Run, labelName: spec.Name, labelParent: spec.Parent,
			labelSession: b.session, labelMaster: master()},
	}
	host := &container.HostConfig{
		AutoRemove: true,
		Binds:      b.opts.Volumes,
		Resources:  resources(spec),
	}
	if e.hasInit {
		yes := true
		host.Init = &yes
	}
	if b.opts.Network != "" {
		host.NetworkMode = container.NetworkMode(b.opts.Network)
	}
	if b.opts.Host == desktopHost && !desktop(e) && e.local {
		host.ExtraHosts = []string{desktopHost + ":host-gateway"}
	}
	return config, host
}

func resources(spec backend.JobSpec) container.Resources {
	r := container.Resources{NanoCPUs: int64(spec.Resources.CPU * 1e9)}
	if spec.Resources.Memory > 0 {
		r.Memory = int64(spec.Resources.Memory) << 20
		r.MemorySwap = r.Memory // that is: nothing besides
	}
	switch gpu := [][]string{{"gpu"}}; {
	case spec.Resources.GPU == 0:
	case len(spec.Devices) > 0:
		r.DeviceRequests = []container.DeviceRequest{{DeviceIDs: spec.Devices, Capabilities: gpu}}
	default:
		r.DeviceRequests = []container.DeviceRequest{{Count: spec.Resources.GPU, Capabilities: gpu}}
	}
	return r
}

var (
	unnameable = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)
	maxName    = 40
)

// containerName makes a name that docker takes, and that no other container
// has, of a process's.
func containerName(name string) string {
	name = strings.Trim(unnameable.ReplaceAllString(name, "-"), "-")
	if len(name) > maxName {
		name = name[:maxName]
	}
	return "fiber-" + strings.TrimPrefix(name+"-", "-") + strings.ToLower(rand.Text()[:12])
}

// hostVariables describe the machine and the session that a program was
// started in. They make no sense in a container, whose own stay.
var hostVariables = []string{"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "SHLVL", "USER", "LOGNAME", "USERNAME", "MAIL",
	"HOSTNAME", "HOST", "TMPDIR", "TEMP", "TMP", "_", "DISPLAY", "WAYLAND_DISPLAY", "TERM_PROGRAM", "INVOCATION_ID",
	"JOURNAL_STREAM", "NOTIFY_SOCKET", "MANAGERPID", "SYSTEMD_EXEC_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
	"LD_PRELOAD", "LD_LIBRARY_PATH", "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOENV", "GOBIN",
	"GOCOVERDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

// hostPrefixes are beginnings of such variables.
var hostPrefixes = []string{"XDG_", "SSH_", "DOCKER_", "DBUS_", "SUDO_", "GPG_", "TMUX", "VSCODE_", "KUBERNETES_"}

// portable is the part of an environment that is the program's and not the
// machine's.
func portable(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "" || slices.Contains(hostVariables, key) ||
			slices.ContainsFunc(hostPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
}
