// Package config holds the settings of Fiber and finds their values.
//
// A setting is one field of [Config]: its tags and its type say everything that the file, the environment, the checks
// and docs/config.md need to know. A value given in code wins over a FIBER_ environment variable, that over
// .fiberconfig in the working directory, and that over the default. A wrong value is an error that names the key, where
// it was given and what is allowed; nothing is ever reset in silence.
package config

import "time"

// Config is every setting of Fiber. A zero field means "not set here": the environment, then .fiberconfig, then the
// default decide. A Config is plain data; what [Load] returns travels to the children as it is.
//
// The tags of a field: key is its name in the file; kind names a row of the table of kinds, for a type that is not a
// kind by itself, and words lists the values of one that is a word; default is the default as text, and unset tells
// in words what happens without one. The comment is the setting's description in docs/config.md, where words in double
// quotes become code: after a change, run go test ./internal/config -update.
type Config struct {
	// Backend is what the children run on.
	Backend string `key:"backend" words:"local docker kubernetes" unset:"chosen by where the program runs"`
	// Executable is another build of this program, which the children then run. "PATH" is not searched.
	Executable string `key:"executable" kind:"executable" unset:"this program's own executable"`
	// Image is an existing image that the containers of the children run.
	Image string `key:"image" kind:"image" unset:"one made from the executable"`
	// BaseImage is the image that the executable is put on: a reference, or the path of an image in a file ("docker save")
	// or a directory (an OCI layout). With none the image holds the executable, the libraries that it names, and little
	// else.
	BaseImage string `key:"base_image" kind:"base image" unset:"none"`
	// AllowOtherBuild lets a child be another build of this program than its parent, as long as the names and types of
	// their functions agree.
	AllowOtherBuild Switch `key:"allow_other_build" default:"off"`

	// Host is the address at which children on other machines and in containers reach this process.
	Host string `key:"host" kind:"address" unset:"what fits the backend"`
	// DockerNetwork is the network of the containers. It must exist.
	DockerNetwork string `key:"docker_network" kind:"network" unset:"the engine's own, bridge"`
	// DockerVolumes are the directories, files and volumes of the host that containers are given. A path must exist on
	// the engine's machine.
	DockerVolumes []string `key:"docker_volumes" kind:"volumes" unset:"none"`
	// DockerCapabilities are the Linux capabilities that containers have.
	DockerCapabilities []string `key:"docker_capabilities" kind:"capabilities" unset:"none"`
	// DockerNewPrivileges lets the programs of a container gain privileges by setuid and file capabilities: without it
	// "sudo" does not work there.
	DockerNewPrivileges Switch `key:"docker_new_privileges" default:"off"`
	// DockerPidsLimit is how many processes and threads a container may have at a time.
	DockerPidsLimit int `key:"docker_pids_limit" kind:"processes" default:"4096"`

	// Registry is where images that are made from the executable are pushed to, with the user's credentials for docker.
	Registry string `key:"registry" kind:"registry" unset:"none"`
	// RegistryInsecure lets the registry speak plain http, or have a certificate that nobody vouches for.
	RegistryInsecure Switch `key:"registry_insecure" default:"off"`
	// RootCPU is how many CPUs a root has that "Main" puts on a cluster.
	RootCPU float64 `key:"root_cpu" kind:"cpus" unset:"no limit"`
	// RootMemory is the memory of such a root.
	RootMemory ByteSize `key:"root_memory" unset:"no limit"`
	// RootGPU is how many GPUs it has.
	RootGPU int `key:"root_gpu" kind:"gpus" unset:"none"`
	// RootEnv are the variables of this process's environment that go along to it, besides Fiber's settings: "NAME",
	// "PREFIX_*" or "NAME=value".
	RootEnv []string `key:"root_env" kind:"variables" unset:"none"`

	// KubernetesNamespace is where pods are. It must exist.
	KubernetesNamespace string `key:"kubernetes_namespace" kind:"namespace" unset:"that of the kubeconfig, or, in a pod, its own"`
	// KubernetesVolumes are the PersistentVolumeClaims that pods are given.
	KubernetesVolumes []string `key:"kubernetes_volumes" kind:"claims" unset:"those of the pod that the program is in"`
	// KubernetesGPUResource is what "meta.GPU" counts on a node.
	KubernetesGPUResource string `key:"kubernetes_gpu_resource" kind:"resource" default:"nvidia.com/gpu"`
	// PodTemplate is a pod in YAML, which says of pods what no other setting does. Its first container is the one that
	// runs the program.
	PodTemplate string `key:"pod_template" kind:"template" unset:"none"`

	// LogLevel is the least severe level that Fiber's own log messages have.
	LogLevel string `key:"log_level" words:"debug info warn error" default:"info"`
	// LogFile is where Fiber's own log messages go. Every process appends to the file; "%p" in its name stands for the
	// name of the process.
	LogFile string `key:"log_file" kind:"log" default:"stderr"`
	// ForwardLogs has a parent pass on what its children write to stdout and stderr.
	ForwardLogs Switch `key:"forward_logs" default:"on"`
	// LogPrefix puts the name of the process that wrote it in front of each line that is passed on:
	// "Pool1Worker-3 | text".
	LogPrefix Switch `key:"log_prefix" default:"on"`

	// HeartbeatInterval is the time between two signs of life on a control connection.
	HeartbeatInterval time.Duration `key:"heartbeat_interval" default:"1s"`
	// HeartbeatTimeout is how long the other side may be silent before it counts as lost. It must be longer than
	// "heartbeat_interval".
	HeartbeatTimeout time.Duration `key:"heartbeat_timeout" default:"10s"`
	// StartTimeout is how long the start of a process may take, the pull of an image included.
	StartTimeout time.Duration `key:"start_timeout" default:"10m"`
	// ShutdownGrace is the time between asking a process to end and killing it.
	ShutdownGrace time.Duration `key:"shutdown_grace" default:"2s"`
	// CancelGrace is how long a function that ignores its cancelled context keeps a worker that others wait for.
	CancelGrace time.Duration `key:"cancel_grace" default:"5s"`

	// MaxMessage is the size of the largest message that is sent or accepted.
	MaxMessage ByteSize `key:"max_message" default:"1GiB"`
	// RuntimeDir is where Fiber makes its own directory, of mode 0700, for sockets.
	RuntimeDir string `key:"runtime_dir" kind:"directory" unset:"XDG_RUNTIME_DIR where that can be used, else the directory for temporary files"`
}
