package wire

import (
	"time"

	"github.com/fiber-go/fiber/internal/config"
)

// CredentialsKey is the environment variable of a Bootstrap's Credentials, in base64.
const CredentialsKey = "FIBER_CREDENTIALS"

// Bootstrap is what a child finds in its environment: how to reach its parent, and
// which process it is to be.
type Bootstrap struct {
	Process string `json:"process"` // the child's id within the run
	Name    string `json:"name"`    // for ps and top, too
	// Program is the parent's os.Args[0]. The child's own may be its name instead.
	Program string `json:"program,omitempty"`
	Build   string `json:"build"` // the parent's build
	FD      int    `json:"fd"`    // the inherited socket, if there is no endpoint
	// Endpoint is where the parent listens. Credentials are the run's, which the
	// child needs to be let in. They travel in a variable of their own, because
	// more people may see how a job was started than may see them.
	Endpoint    string `json:"endpoint,omitempty"`
	Credentials []byte `json:"-"`
	// What the child must know of the configuration before it receives it.
	MaxMessage int64         `json:"max_message"`
	Heartbeat  time.Duration `json:"heartbeat"`
	Silence    time.Duration `json:"silence,omitempty"` // how long the parent may be silent, 0 for no limit
	// StartTimeout is how long a child that has found its parent tries to be let in.
	// The parent's own deadline, at which it ends the child, is sooner.
	StartTimeout time.Duration `json:"start_timeout,omitempty"`
	// Restore holds the variables that the backend has set in the child's
	// environment to limit it, with the values that the child goes on with.
	Restore map[string]string `json:"restore,omitempty"`
}

// Hello is a child's first message.
type Hello struct {
	Process  string
	Version  int
	Platform string   // GOOS/GOARCH
	Build    string   // of the executable
	Hash     string   // of the function table
	Table    []string // the table itself, only when the builds differ
	PID      int
}

// Refuse tells a child why it is refused.
type Refuse struct{ Reason string }

// Role says what a child is started for.
type Role string

// The roles.
const (
	RoleFunction Role = "function" // runs one function and ends
	RoleWorker   Role = "worker"   // serves a pool
	RoleManager  Role = "manager"  // is the home of managed objects
	RoleRing     Role = "ring"     // is a rank of a ring
)

// Assign tells a child its work. Its value is the argument of the function, or those
// of the setups, each as a slice of one.
type Assign struct {
	Role        Role
	Name        string  // of the process
	Func        string  // the function
	Setups      []Setup // of a worker, before its first task
	Concurrency int     // tasks at a time in a worker
	Pool        string  // the name of a worker's pool
	Run         string  // the run's id
	Credentials []byte  // the run's
	Config      config.Config
	ParentName  string
	ParentPID   int
	Host        string
	Devices     []string // GPUs on loan
	Place       string   // in the tree of processes
	Rank, Size  int      // of a ring
	Backend     string   // the backend on which the root starts the child's jobs, "" if the child starts them itself
	Places      bool     // that backend finds a machine for each job
	Avoids      bool     // it can be told which ones to avoid
	Logs        bool     // log messages go to the root, see Log
}

// Setup is a function that a worker runs before its first task: an initializer, or what opens a state. Of the value of
// its Assign, the next Frames are its argument.
type Setup struct {
	Kind   string // in the registry
	Func   string
	Frames int
}

// Done reports how the assigned function, an initializer, a manager's start or an
// object's method ended.
type Done struct{ Err *Error }

// Status reports how many bytes a child has in memory, and the processor time that it has taken.
type Status struct {
	Resident int64 // see local.Resident
	Shared   int64 // of shared values: those of its machine that it sees, and its own copies of others
	CPU      time.Duration
}
