package config

import "time"

// settings is the one place that knows every key: the file, the environment, the checks and docs/config.md follow it.
// A new setting is a field of Config and a row here; then run go test ./internal/config -update.
var settings = []setting{
	row[string]{
		name: "backend", value: func(c *Config) *string { return &c.Backend },
		kind: oneOf(func() []string { return Backends }), unset: "chosen by where the program runs",
		meaning: "What the children run on.",
	},
	row[string]{
		name: "executable", value: func(c *Config) *string { return &c.Executable },
		kind: executablePath, unset: "this program's own executable",
		meaning: "Another build of this program, which the children then run. `PATH` is not searched.",
	},
	row[string]{
		name: "image", value: func(c *Config) *string { return &c.Image },
		kind: imageName, unset: "one made from the executable",
		meaning: "An existing image that the containers of the children run.",
	},
	row[string]{
		name: "base_image", value: func(c *Config) *string { return &c.BaseImage },
		kind: baseImage, unset: "none",
		meaning: "The image that the executable is put on: a reference, or the path of an image in a file (`docker save`) or a directory (an OCI layout). With none the image holds the executable, the libraries that it names, and little else.",
	},
	row[Switch]{
		name: "allow_other_build", value: func(c *Config) *Switch { return &c.AllowOtherBuild },
		kind: boolean, initial: "off",
		meaning: "A child may be another build of this program than its parent, as long as the names and types of their functions agree.",
	},
	row[string]{
		name: "host", value: func(c *Config) *string { return &c.Host },
		kind: hostAddress, unset: "what fits the backend",
		meaning: "The address at which children on other machines and in containers reach this process.",
	},
	row[string]{
		name: "docker_network", value: func(c *Config) *string { return &c.DockerNetwork },
		kind: dockerNetwork, unset: "the engine's own, `bridge`",
		meaning: "The network of the containers. It must exist.",
	},
	row[[]string]{
		name: "docker_volumes", value: func(c *Config) *[]string { return &c.DockerVolumes },
		kind: volumes, unset: "none",
		meaning: "What containers are given of the host: directories, files and volumes. A path must exist on the engine's machine.",
	},
	row[[]string]{
		name: "docker_capabilities", value: func(c *Config) *[]string { return &c.DockerCapabilities },
		kind: capabilities, unset: "none",
		meaning: "The Linux capabilities that containers have.",
	},
	row[Switch]{
		name: "docker_new_privileges", value: func(c *Config) *Switch { return &c.DockerNewPrivileges },
		kind: boolean, initial: "off",
		meaning: "Programs in a container may gain privileges, by setuid and file capabilities: without it `sudo` does not work there.",
	},
	row[int]{
		name: "docker_pids_limit", value: func(c *Config) *int { return &c.DockerPidsLimit },
		kind: pidsLimit, initial: "4096",
		meaning: "How many processes and threads a container may have at a time.",
	},
	row[string]{
		name: "registry", value: func(c *Config) *string { return &c.Registry },
		kind: registryName, unset: "none",
		meaning: "Where images that are made from the executable are pushed to, with the user's credentials for docker.",
	},
	row[Switch]{
		name: "registry_insecure", value: func(c *Config) *Switch { return &c.RegistryInsecure },
		kind: boolean, initial: "off",
		meaning: "The registry may speak plain http, or have a certificate that nobody vouches for.",
	},
	row[float64]{
		name: "master_cpu", value: func(c *Config) *float64 { return &c.MasterCPU },
		kind: cpus, unset: "no limit",
		meaning: "The CPUs of a master that `Main` puts on a cluster.",
	},
	row[ByteSize]{
		name: "master_memory", value: func(c *Config) *ByteSize { return &c.MasterMemory },
		kind: size, unset: "no limit",
		meaning: "Its memory.",
	},
	row[int]{
		name: "master_gpu", value: func(c *Config) *int { return &c.MasterGPU },
		kind: gpus, unset: "none",
		meaning: "Its GPUs.",
	},
	row[[]string]{
		name: "master_env", value: func(c *Config) *[]string { return &c.MasterEnv },
		kind: variables, unset: "none",
		meaning: "The environment variables that go along to it, besides Fiber's settings: `NAME`, `PREFIX_*` or `NAME=value`.",
	},
	row[string]{
		name: "kubernetes_namespace", value: func(c *Config) *string { return &c.KubernetesNamespace },
		kind: namespaceName, unset: "that of the kubeconfig, or, in a pod, its own",
		meaning: "Where pods are. It must exist.",
	},
	row[[]string]{
		name: "kubernetes_volumes", value: func(c *Config) *[]string { return &c.KubernetesVolumes },
		kind: claims, unset: "those of the pod that the program is in",
		meaning: "The PersistentVolumeClaims that pods are given.",
	},
	row[string]{
		name: "kubernetes_gpu_resource", value: func(c *Config) *string { return &c.KubernetesGPUResource },
		kind: gpuResource, initial: "nvidia.com/gpu",
		meaning: "What `meta.GPU` counts on a node.",
	},
	row[string]{
		name: "pod_template", value: func(c *Config) *string { return &c.PodTemplate },
		kind: podTemplate, unset: "none",
		meaning: "A pod in YAML, which says of pods what no other setting does. Its first container is the one that runs the program.",
	},
	row[string]{
		name: "log_level", value: func(c *Config) *string { return &c.LogLevel },
		kind: oneOf(logLevelNames), initial: "info",
		meaning: "The least severe level that Fiber's own log messages have.",
	},
	row[string]{
		name: "log_file", value: func(c *Config) *string { return &c.LogFile },
		kind: logTarget, initial: Stderr,
		meaning: "Where Fiber's own log messages go. Every process appends to the file; `%p` in its name stands for the name of the process.",
	},
	row[Switch]{
		name: "forward_logs", value: func(c *Config) *Switch { return &c.ForwardLogs },
		kind: boolean, initial: "on",
		meaning: "A parent passes on what its children write to stdout and stderr.",
	},
	row[Switch]{
		name: "log_prefix", value: func(c *Config) *Switch { return &c.LogPrefix },
		kind: boolean, initial: "on",
		meaning: "Each line that is passed on has the name of the process that wrote it in front: `Pool1Worker-3 | text`.",
	},
	row[time.Duration]{
		name: "heartbeat_interval", value: func(c *Config) *time.Duration { return &c.HeartbeatInterval },
		kind: duration, initial: "1s",
		meaning: "The time between two signs of life on a control connection.",
	},
	row[time.Duration]{
		name: "heartbeat_timeout", value: func(c *Config) *time.Duration { return &c.HeartbeatTimeout },
		kind: duration, initial: "10s",
		meaning: "How long the other side may be silent before it counts as lost. Longer than `heartbeat_interval`.",
	},
	row[time.Duration]{
		name: "start_timeout", value: func(c *Config) *time.Duration { return &c.StartTimeout },
		kind: duration, initial: "10m",
		meaning: "How long the start of a process may take, the pull of an image included.",
	},
	row[time.Duration]{
		name: "shutdown_grace", value: func(c *Config) *time.Duration { return &c.ShutdownGrace },
		kind: duration, initial: "2s",
		meaning: "The time between asking a process to end and killing it.",
	},
	row[time.Duration]{
		name: "cancel_grace", value: func(c *Config) *time.Duration { return &c.CancelGrace },
		kind: duration, initial: "5s",
		meaning: "How long a function that ignores its cancelled context keeps a worker that others wait for.",
	},
	row[ByteSize]{
		name: "max_message", value: func(c *Config) *ByteSize { return &c.MaxMessage },
		kind: size, initial: "1GiB",
		meaning: "The largest message that is sent or accepted.",
	},
	row[string]{
		name: "runtime_dir", value: func(c *Config) *string { return &c.RuntimeDir },
		kind: directory, unset: "`XDG_RUNTIME_DIR` where that can be used, else the directory for temporary files",
		meaning: "Where Fiber makes its own directory, of mode 0700, for sockets.",
	},
}

// find returns the setting of that name, written as the table has it, or nil.
func find(name string) setting {
	for _, s := range settings {
		if s.key().Name == name {
			return s
		}
	}
	return nil
}
