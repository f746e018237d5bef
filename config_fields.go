// Code generated from internal/config by go test ./internal/config -update; DO NOT EDIT.

package fiber

import (
	"log/slog"
	"time"
)

// Config holds every setting of Fiber. A zero field takes its value from the
// environment (FIBER_BACKEND and so on), else from the file .fiberconfig in the
// working directory, else from the defaults. docs/config.md lists all keys.
// Pass a Config to Main or Init.
type Config struct {
	// Backend is what the children run on.
	Backend string
	// Executable is another build of this program for the children to run. "PATH" is not searched.
	Executable string
	// Image is an existing image for the children's containers.
	Image string
	// BaseImage is the image to which the executable is added: a reference, or the path of an image in a file ("docker
	// save") or a directory (an OCI layout). Without one, the image holds the executable, the libraries that it names,
	// and little else.
	BaseImage string
	// AllowOtherBuild lets a child be another build of this program than its parent, as long as the names and types of
	// their functions agree.
	AllowOtherBuild Switch

	// Host is the address at which children on other machines and in containers reach this process.
	Host string
	// Env are the variables of this process's environment that containers and pods get, besides Fiber's settings and
	// those that mean the same everywhere: "NAME", "PREFIX_*" or "NAME=value"; "*" is all that do not describe this
	// machine.
	Env []string
	// DockerNetwork is the network of the containers. It must exist.
	DockerNetwork string
	// DockerVolumes are the directories, files and volumes of the host that containers get. A path must exist on the
	// engine's machine.
	DockerVolumes []string
	// DockerCapabilities are the Linux capabilities that containers have.
	DockerCapabilities []string
	// DockerNewPrivileges lets the programs of a container gain privileges by setuid and file capabilities. Unless it
	// is on, "sudo" does not work there.
	DockerNewPrivileges Switch
	// DockerPidsLimit is how many processes and threads a container may have at a time.
	DockerPidsLimit int

	// Registry is where images made from the executable are pushed, with the user's docker credentials.
	Registry string
	// RegistryInsecure allows a registry that speaks plain http or has an untrusted certificate.
	RegistryInsecure Switch
	// RootCPU is how many CPUs the root has when "Main" runs it on a cluster.
	RootCPU float64
	// RootMemory is how much memory such a root has.
	RootMemory ByteSize
	// RootGPU is how many GPUs such a root has.
	RootGPU int

	// KubernetesNamespace is the namespace of the pods. It must exist.
	KubernetesNamespace string
	// KubernetesVolumes are the PersistentVolumeClaims that pods get.
	KubernetesVolumes []string
	// KubernetesGPUResource is the node resource that "meta.GPU" counts.
	KubernetesGPUResource string
	// PodTemplate is a pod in YAML with everything that no other setting covers. Its first container is the one that
	// runs the program.
	PodTemplate string

	// Settings are the settings of further backends, by their keys: see backend.Register.
	Settings map[string]string

	// LogLevel is the least severe level of Fiber's own log messages that are written.
	LogLevel string
	// LogFile is where Fiber's own log messages go. Every process appends to the file; "%p" in its name stands for the
	// name of the process. Containers and pods do not have the file, and log to stderr.
	LogFile string
	// Logger gets those messages in the place of the file, in the root. It gets those of all other processes, too: the
	// attribute "from" is then the process's name. It may be slow, and may use Fiber, since nothing waits for it; of more
	// than 1000 messages that it has yet to take, the newest are dropped, and it is told how many. The end of the run waits
	// for it 2 s at most.
	Logger *slog.Logger
	// ForwardLogs makes each parent pass on what its children write to stdout and stderr, line by line. A line of more than
	// 64 KiB comes in pieces, each a line of its own.
	ForwardLogs Switch
	// LogPrefix starts each line that is passed on with the name of the process that wrote it:
	// "Pool1Worker-3 | text".
	LogPrefix Switch

	// Report is the file, in HTML, that says at the end of the run what has happened in it. The program imports
	// github.com/fiber-go/fiber/dashboard for it.
	Report string
	// Trace is the file, in the format of Chrome's traces and compressed by gzip, that has what each worker ran and when. The
	// program imports github.com/fiber-go/fiber/dashboard for it.
	Trace string
	// Dashboard is the address, host:port, at which the root serves a page of the run while it goes on. Whoever opens it needs the token in
	// the URL that the program prints. The program imports github.com/fiber-go/fiber/dashboard for it.
	Dashboard string
	// Metrics is the address, host:port, or :port for all of the machine's, at which the root serves figures of the run for Prometheus, to
	// everybody. The program imports github.com/fiber-go/fiber/metrics for it.
	Metrics string

	// HeartbeatInterval is the time between heartbeats on a connection.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is how long the other side may be silent before it counts as lost. It must be longer than
	// "heartbeat_interval".
	HeartbeatTimeout time.Duration
	// StartTimeout is how long the start of a process may take, including the pull of an image.
	StartTimeout time.Duration
	// ShutdownGrace is the time between asking a process to end and killing it.
	ShutdownGrace time.Duration
	// CancelGrace is how long a function that ignores its cancelled context may keep a worker that other work
	// needs. Then the worker is killed.
	CancelGrace time.Duration

	// MaxMessage is the size of the largest message that may be sent or received.
	MaxMessage ByteSize
	// ShareMemory is how much memory the shared values may have in a process that has shared them, or taken them over from one that
	// has ended. The rest lies on disk, in the directory for temporary files, or is refused. It is also how much a process keeps of
	// those that have come as messages.
	ShareMemory ByteSize
	// RuntimeDir is where Fiber makes its own directory for sockets, with mode 0700.
	// The command fiber finds the programs of this machine there.
	RuntimeDir string
}
