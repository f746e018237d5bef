package wire

import (
	"time"

	"github.com/fiber-go/fiber/internal/config"
)

// Bootstrap is what a child finds in its environment: where its parent is and
// which process it is to be.
type Bootstrap struct {
	Process string `json:"process"` // the child's id within the run
	Name    string `json:"name"`    // what ps and top are to call it
	// Program is the first of its parent's arguments, in the place of which it
	// may have found its own name.
	Program string `json:"program,omitempty"`
	Build   string `json:"build"` // the parent's build
	FD      int    `json:"fd"`    // the inherited socket, where there is no endpoint
	// Endpoint is where the parent listens, and Credentials, the run's, are
	// what it takes to be let in. They are in a variable of their own, since
	// whoever may see what a job was started with need not see them.
	Endpoint    string `json:"endpoint,omitempty"`
	Credentials []byte `json:"-"`
	// What the child must know of the configuration before it is given it.
	MaxMessage int64         `json:"max_message"`
	Heartbeat  time.Duration `json:"heartbeat"`
	Silence    time.Duration `json:"silence,omitempty"` // how long the parent may be silent, 0 for ever
	// StartTimeout is how long a child that has found its parent tries to be let in.
	// The parent ends it at its own deadline, which is sooner.
	StartTimeout time.Duration `json:"start_timeout,omitempty"`
	// Restore is what these variables of the environment are to its children;
	// in its own they say what it may use.
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

// Refuse tells a child why it is not wanted.
type Refuse struct{ Reason string }

// Role is what a child is started for.
type Role string

// The roles.
const (
	RoleFunction Role = "function" // runs one function and ends
	RoleWorker   Role = "worker"   // serves a pool
	RoleManager  Role = "manager"  // is the home of managed objects
	RoleRing     Role = "ring"     // is a rank of a ring
)

// Assign gives a child its work. The value behind it is the function's
// argument, or the initializer's, as a slice of one.
type Assign struct {
	Role        Role
	Name        string // of the process
	Func        string // the function, or the initializer ("" for none)
	Concurrency int    // tasks at a time in a worker
	Run         string // the run's id
	Credentials []byte // the run's
	Config      config.Config
	ParentName  string
	ParentPID   int
	Host        string
	Devices     []string // GPUs on loan
	Place       string   // in the tree of processes
	Rank, Size  int      // of a ring
	Backend     string   // what the root starts its jobs on, "" when the child starts its own itself
	Cluster     bool     // that backend finds a machine for each job
}

// Done is how the assigned function, or an initializer, ended.
type Done struct{ Err *Error }

// Status is how a child is.
type Status struct{ Resident int64 } // bytes
