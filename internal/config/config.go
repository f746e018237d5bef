// Package config holds the settings of Fiber and finds their values.
//
// A value given in code wins over a FIBER_ environment variable, that over .fiberconfig in the working directory,
// and that over the default. One table (keys.go) drives all four, the checks, and docs/config.md. A wrong value is
// an error that names the key, where it was given and what is allowed; nothing is ever reset in silence.
package config

import "time"

// Backends are the names that [Config.Backend] may have.
var Backends = []string{"local", "docker", "kubernetes"}

// Config is every setting of Fiber. A zero field means "not set here": the environment, then .fiberconfig, then the
// default decide. A Config is plain data; what [Load] returns travels to the children as it is.
type Config struct {
	// Backend is what the children run on: "local", "docker" or "kubernetes". Defaults to what fits where the program itself runs.
	Backend string
	// Executable is the path of another build of this program, which the children then run. A relative path starts at
	// the working directory; PATH is not searched. Defaults to this program's own executable.
	Executable string
	// Image is an existing image that the containers of the children run, as docker names it. Defaults to one that is
	// made from the executable.
	Image string
	// BaseImage is the image that the executable is put on: a reference, such as "debian:12", or the path of an image
	// in a file (docker save) or in a directory (an OCI layout). Defaults to none: the image then holds the executable,
	// the libraries that it names, and little else.
	BaseImage string
	// AllowOtherBuild lets a child be another build of this program than its parent, as long as the names and types of
	// their functions agree. Defaults to Off.
	AllowOtherBuild Switch

	// Host is the address, a name or an IP without a port, at which children on other machines and in containers reach
	// this process. Defaults to what fits the backend.
	Host string
	// DockerNetwork is the network of the containers. It must exist. Defaults to the engine's own, bridge.
	DockerNetwork string
	// DockerVolumes are the directories, files and volumes that containers are given, "host:container" or
	// "host:container:ro". A relative path of the host starts at the working directory. Defaults to none.
	// A path that the engine's machine does not have is an error when a container starts.
	DockerVolumes []string
	// DockerCapabilities are the Linux capabilities that containers have, such as "DAC_OVERRIDE", or "ALL". Defaults to
	// none.
	DockerCapabilities []string
	// DockerNewPrivileges lets the programs of a container gain privileges by setuid and file capabilities. Defaults to
	// Off.
	DockerNewPrivileges Switch
	// DockerPidsLimit is how many processes and threads a container may have at a time. Defaults to 4096.
	DockerPidsLimit int

	// Registry is where images that are made from the executable are pushed to, such as "registry.example.com/team",
	// with the user's credentials for docker. Defaults to none.
	Registry string
	// RegistryInsecure lets the registry speak plain http, or have a certificate that nobody vouches for. Defaults to
	// Off.
	RegistryInsecure Switch
	// MasterCPU is how many CPUs a master has that Main puts on a cluster. Defaults to no limit.
	MasterCPU float64
	// MasterMemory is its memory. Defaults to no limit.
	MasterMemory ByteSize
	// MasterGPU is how many GPUs it has. Defaults to none.
	MasterGPU int
	// MasterEnv are the variables of this process's environment that it is given: a name, a beginning of names with a
	// star behind it, or "NAME=value". Defaults to none but Fiber's own settings.
	MasterEnv []string

	// KubernetesNamespace is where pods are. It must exist. Defaults to that of the kubeconfig, or, in a pod, to its own.
	KubernetesNamespace string
	// KubernetesVolumes are the PersistentVolumeClaims that pods are given, "claim", which is mounted at /persistent,
	// "claim:path" or "claim:path:ro". Defaults to those of the pod that this process is in.
	KubernetesVolumes []string
	// KubernetesGPUResource is what meta.GPU counts on a node. Defaults to "nvidia.com/gpu".
	KubernetesGPUResource string
	// PodTemplate is the path of a pod in YAML, which says of pods what no other setting does. Its first container is
	// the one that runs the program. Defaults to none.
	PodTemplate string

	// LogLevel is the least severe level that Fiber's own log messages have: "debug", "info", "warn" or "error".
	// Defaults to "info".
	LogLevel string
	// LogFile is where Fiber's own log messages go: "stderr", "stdout", or the path of a file, to which every process
	// appends. "%p" in the file's name stands for the name of the process (see [LogPath]). Defaults to "stderr".
	LogFile string
	// ForwardLogs has a parent pass on what its children write to stdout and stderr. Defaults to On.
	ForwardLogs Switch
	// LogPrefix puts the name of the process that wrote it in front of each line that is passed on. Defaults to On.
	LogPrefix Switch

	// HeartbeatInterval is the time between two signs of life on a control connection, at least a millisecond, as
	// every duration here. Defaults to 1s.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is how long the other side may be silent before it counts as lost. It must be longer than
	// HeartbeatInterval. Defaults to 10s.
	HeartbeatTimeout time.Duration
	// StartTimeout is how long the start of a process may take, the pull of an image included. Defaults to 10m.
	StartTimeout time.Duration
	// ShutdownGrace is the time between asking a process to end and killing it. Defaults to 2s.
	ShutdownGrace time.Duration
	// CancelGrace is how long a function that ignores its cancelled context keeps a worker that others wait for.
	// Defaults to 5s.
	CancelGrace time.Duration

	// MaxMessage is the size of the largest message that is sent or accepted, at least 4 KiB. Defaults to 1 GiB.
	MaxMessage ByteSize
	// RuntimeDir is the directory in which Fiber makes its own, of mode 0700, for sockets. It must exist and be
	// writable. Defaults to XDG_RUNTIME_DIR where that can be used, else to [os.TempDir].
	RuntimeDir string
}
