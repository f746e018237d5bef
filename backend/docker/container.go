package docker

import (
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/owner"
)

// The labels of Fiber's containers.
const (
	labelRun     = "fiber.run"     // the run's id
	labelName    = "fiber.name"    // the process's name
	labelParent  = "fiber.parent"  // the name of the process that started it
	labelSession = "fiber.session" // the backend that made it
	labelRoot    = "fiber.root"    // the run's root; see package owner
)

// container returns the description of a job's container for the engine.
func (b *Backend) container(e *engine, img prepared, spec backend.JobSpec) (*container.Config, *container.HostConfig) {
	set := backend.Limits(spec.Resources)
	set[pid1.Key] = pid1.Value
	program := &container.Config{
		Image:      img.name,
		Entrypoint: img.entrypoint,
		Cmd:        spec.Args,
		Env:        backend.With(slices.Concat(spec.Env, spec.Public), set),
		// The program ends on the first SIGTERM.
		StopSignal: "SIGTERM",
		Labels: map[string]string{labelRun: spec.Run, labelName: spec.Name, labelParent: spec.Parent,
			labelSession: b.session, labelRoot: owner.Name()},
	}
	host := &container.HostConfig{
		AutoRemove: true,
		Mounts:     mounts(b.cfg.DockerVolumes),
		CapDrop:    []string{"ALL"},
		CapAdd:     b.cfg.DockerCapabilities,
		Resources:  resources(spec),
	}
	if dir := spec.Directory; dir != "" {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: dir, Target: dir, ReadOnly: true})
	}
	limit := int64(b.cfg.DockerPidsLimit)
	host.PidsLimit = &limit
	if !b.cfg.DockerNewPrivileges.Enabled() {
		host.SecurityOpt = []string{"no-new-privileges"}
	}
	if b.cfg.DockerNetwork != "" {
		host.NetworkMode = container.NetworkMode(b.cfg.DockerNetwork)
	}
	if b.cfg.Host == desktopHost && !desktop(e) && e.local {
		host.ExtraHosts = []string{desktopHost + ":host-gateway"}
	}
	return program, host
}

// mounts returns the mounts that docker_volumes names. They are not passed as the older Binds, for which an engine creates
// missing paths, as root.
func mounts(volumes []string) []mount.Mount {
	var all []mount.Mount
	for _, text := range volumes {
		v, _ := config.ParseVolume(text, "") // already checked
		m := mount.Mount{Type: mount.TypeVolume, Source: v.Name, Target: v.Path, ReadOnly: v.ReadOnly}
		if strings.ContainsAny(m.Source, `/\`) { // not the name of a volume
			m.Type = mount.TypeBind
		}
		all = append(all, m)
	}
	return all
}

func resources(spec backend.JobSpec) container.Resources {
	r := container.Resources{NanoCPUs: int64(spec.Resources.CPU * 1e9)}
	if spec.Resources.Memory > 0 {
		r.Memory = int64(spec.Resources.Memory) << 20
		r.MemorySwap = r.Memory // which means no swap
	}
	if spec.Resources.GPU > 0 {
		gpus := container.DeviceRequest{DeviceIDs: spec.Devices, Capabilities: [][]string{{"gpu"}}}
		if len(spec.Devices) == 0 {
			gpus.Count = spec.Resources.GPU
		}
		r.DeviceRequests = []container.DeviceRequest{gpus}
	}
	return r
}
