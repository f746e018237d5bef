// Package config defines the settings of Fiber and finds their values.
//
// A setting is one field of [Config]: its tags and its type say everything that the file, the environment, the checks
// and docs/config.md need to know. A value in code wins over a FIBER_ environment variable, which wins over
// .fiberconfig in the working directory, which wins over the default. A file that a stranger may have written is an
// error, unless FIBER_CONFIG names it. A wrong value is an error that names the key, where the value was given and what
// is allowed; no value is ever silently replaced.
package config

import (
	"log/slog"
	"time"
)

// Config has all the settings of Fiber. A zero field means "not set here": the environment, then .fiberconfig, then
// the default decide. A Config is plain data; the one that [Load] returns travels to the children as it is.
//
// The tags of a field: key is its name in the file; without one, only code sets it. kind names a row of the table of
// kinds, unless the type itself does, and words lists the possible values of a word. default is the default as text, and unset describes what
// happens without one. The comment becomes the setting's description in docs/config.md, with words in double quotes as
// code: after a change, run go test ./internal/config -update.
type Config struct {
	// Backend is what the children run on.
	Backend string `key:"backend" unset:"chosen by where the program runs"`
	// Executable is another build of this program for the children to run. "PATH" is not searched.
	Executable string `key:"executable" kind:"executable" unset:"this program's own executable"`
	// Image is an existing image for the children's containers.
	Image string `key:"image" kind:"image" unset:"one made from the executable"`
	// BaseImage is the image to which the executable is added: a reference, or the path of an image in a file ("docker
	// save") or a directory (an OCI layout). Without one, the image holds the executable, the libraries that it names,
	// and little else.
	BaseImage string `key:"base_image" kind:"base image" unset:"none"`
	// AllowOtherBuild lets a child be another build of this program than its parent, as long as the names and types of
	// their functions agree.
	AllowOtherBuild Switch `key:"allow_other_build" default:"off"`

	// Host is the address at which children on other machines and in containers reach this process.
	Host string `key:"host" kind:"address" unset:"depends on the backend"`
	// Env are the variables of this process's environment that containers and pods get, besides Fiber's settings and
	// those that mean the same everywhere: "NAME", "PREFIX_*" or "NAME=value"; "*" is all that do not describe this
	// machine.
	Env []string `key:"env" kind:"variables" unset:"none"`
	// DockerNetwork is the network of the containers. It must exist.
	DockerNetwork string `key:"docker_network" kind:"network" unset:"the engine's own, bridge"`
	// DockerVolumes are the directories, files and volumes of the host that containers get. A path must exist on the
	// engine's machine.
	DockerVolumes []string `key:"docker_volumes" kind:"volumes" unset:"none"`
	// DockerCapabilities are the Linux capabilities that containers have.
	DockerCapabilities []string `key:"docker_capabilities" kind:"capabilities" unset:"none"`
	// DockerNewPrivileges lets the programs of a container gain privileges by setuid and file capabilities. Unless it
	// is on, "sudo" does not work there.
	DockerNewPrivileges Switch `key:"docker_new_privileges" default:"off"`
	// DockerPidsLimit is how many processes and threads a container may have at a time.
	DockerPidsLimit int `key:"docker_pids_limit" kind:"processes" default:"4096"`

	// Registry is where images made from the executable are pushed, with the user's docker credentials.
	Registry string `key:"registry" kind:"registry" unset:"none"`
	// RegistryInsecure allows a registry that speaks plain http or has an untrusted certificate.
	RegistryInsecure Switch `key:"registry_insecure" default:"off"`
	// RootCPU is how many CPUs the root has when "Main" runs it on a cluster.
	RootCPU float64 `key:"root_cpu" kind:"cpus" unset:"no limit"`
	// RootMemory is how much memory such a root has.
	RootMemory ByteSize `key:"root_memory" unset:"no limit"`
	// RootGPU is how many GPUs such a root has.
	RootGPU int `key:"root_gpu" kind:"gpus" unset:"none"`

	// KubernetesNamespace is the namespace of the pods. It must exist.
	KubernetesNamespace string `key:"kubernetes_namespace" kind:"namespace" unset:"that of the kubeconfig, or, in a pod, its own"`
	// KubernetesVolumes are the PersistentVolumeClaims that pods get.
	KubernetesVolumes []string `key:"kubernetes_volumes" kind:"claims" unset:"those of the pod that the program is in"`
	// KubernetesGPUResource is the node resource that "meta.GPU" counts.
	KubernetesGPUResource string `key:"kubernetes_gpu_resource" kind:"resource" default:"nvidia.com/gpu"`
	// PodTemplate is a pod in YAML with everything that no other setting covers. Its first container is the one that
	// runs the program.
	PodTemplate string `key:"pod_template" kind:"template" unset:"none"`

	// Settings are the settings of further backends, by their keys: see backend.Register.
	Settings map[string]string

	// LogLevel is the least severe level of Fiber's own log messages that are written.
	LogLevel string `key:"log_level" words:"debug info warn error" default:"info"`
	// LogFile is where Fiber's own log messages go. Every process appends to the file; "%p" in its name stands for the
	// name of the process. Containers and pods do not have the file, and log to stderr.
	LogFile string `key:"log_file" kind:"log" default:"stderr"`
	// Logger gets those messages in the place of the file, in the root. It gets those of all other processes, too: the
	// attribute "from" is then the process's name. It may be slow, and may use Fiber, since nothing waits for it; of more
	// than 1000 messages that it has yet to take, the newest are dropped, and it is told how many. The end of the run waits
	// for it 2 s at most.
	Logger *slog.Logger `msgpack:"-"`
	// ForwardLogs makes each parent pass on what its children write to stdout and stderr, line by line. A line of more than
	// 64 KiB comes in pieces, each a line of its own.
	ForwardLogs Switch `key:"forward_logs" default:"on"`
	// LogPrefix starts each line that is passed on with the name of the process that wrote it:
	// "Pool1Worker-3 | text".
	LogPrefix Switch `key:"log_prefix" default:"on"`

	// Report is the file, in HTML, that says at the end of the run what has happened in it. The program imports
	// github.com/fiber-go/fiber/dashboard for it.
	Report string `key:"report" kind:"output" unset:"none"`
	// Trace is the file, in the format of Chrome's traces and compressed by gzip, that has what each worker ran and when. The
	// program imports github.com/fiber-go/fiber/dashboard for it.
	Trace string `key:"trace" kind:"output" unset:"none"`
	// Dashboard is the address, host:port, at which the root serves a page of the run while it goes on. Whoever opens it needs the token in
	// the URL that the program prints. The program imports github.com/fiber-go/fiber/dashboard for it.
	Dashboard string `key:"dashboard" kind:"listener" unset:"none"`
	// Metrics is the address, host:port, or :port for all of the machine's, at which the root serves figures of the run for Prometheus, to
	// everybody. The program imports github.com/fiber-go/fiber/metrics for it.
	Metrics string `key:"metrics" kind:"open listener" unset:"none"`

	// HeartbeatInterval is the time between heartbeats on a connection.
	HeartbeatInterval time.Duration `key:"heartbeat_interval" default:"1s"`
	// HeartbeatTimeout is how long the other side may be silent before it counts as lost. It must be longer than
	// "heartbeat_interval".
	HeartbeatTimeout time.Duration `key:"heartbeat_timeout" default:"10s"`
	// StartTimeout is how long the start of a process may take, including the pull of an image.
	StartTimeout time.Duration `key:"start_timeout" default:"10m"`
	// ShutdownGrace is the time between asking a process to end and killing it.
	ShutdownGrace time.Duration `key:"shutdown_grace" default:"2s"`
	// CancelGrace is how long a function that ignores its cancelled context may keep a worker that other work
	// needs. Then the worker is killed.
	CancelGrace time.Duration `key:"cancel_grace" default:"5s"`

	// MaxMessage is the size of the largest message that may be sent or received.
	MaxMessage ByteSize `key:"max_message" default:"1GiB"`
	// ShareMemory is how much memory the shared values may have in a process that has shared them, or taken them over from one that
	// has ended. The rest lies on disk, in the directory for temporary files, or is refused. It is also how much a process keeps of
	// those that have come as messages.
	ShareMemory ByteSize `key:"share_memory" unset:"a third of the memory of the machine, or of the container"`
	// RuntimeDir is where Fiber makes its own directory for sockets, with mode 0700.
	// The command fiber finds the programs of this machine there.
	RuntimeDir string `key:"runtime_dir" kind:"directory" unset:"XDG_RUNTIME_DIR if it can be used, else the directory for temporary files"`
}
