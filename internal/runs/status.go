package runs

import "time"

// Status says how a run is.
type Status struct {
	Answer  uint64        `json:"answer"` // counts the answers of the root
	At      time.Time     `json:"at"`
	Up      time.Duration `json:"up"`
	Backend string        `json:"backend"`
	Page    string        `json:"page,omitempty"` // the address of the dashboard, as the root calls it

	// Of each there are at most MaxListed.
	Pools     []Pool    `json:"pools,omitempty"`     // of the root
	Calls     []Call    `json:"calls,omitempty"`     // of the root, those that go on
	Processes []Process `json:"processes,omitempty"` // of the whole run, those that use the most processor time
	AllPools  int       `json:"all_pools"`
	AllCalls  int       `json:"all_calls"`
	Running   int       `json:"running"`        // all processes
	CPU       float64   `json:"cpu"`            // processors that all of them use
	Resident  int64     `json:"resident"`       // bytes, all of them
	News      []News    `json:"news,omitempty"` // since the first question, the newest last
}

// MaxListed and MaxNews bound an answer.
const (
	MaxListed = 200
	MaxNews   = 10
)

// Pool is a pool of the root, that of a Process apart.
type Pool struct {
	Number   uint64   `json:"number"`
	Name     string   `json:"name"`
	Starting int      `json:"starting"`
	Ready    int      `json:"ready"`
	Idle     int      `json:"idle"` // of those that are ready
	Lost     int      `json:"lost"`
	Queued   int      `json:"queued"` // tasks that no worker has
	Held     int      `json:"held"`   // tasks that workers have
	Done     int      `json:"done"`   // tasks
	Failed   int      `json:"failed"` // tasks
	Retried  int      `json:"retried"`
	Waits    []string `json:"waits,omitempty"` // why workers can't start
}

// Call is a call of more than one task.
type Call struct {
	Pool    string `json:"pool"`
	Number  uint64 `json:"number"`
	Func    string `json:"func"`
	Tasks   int    `json:"tasks"` // -1 while the input goes on
	Done    int    `json:"done"`  // with those that a checkpoint had finished, and those that have failed
	Failed  int    `json:"failed"`
	Retried int    `json:"retried"`
}

// Process is a process of the run.
type Process struct {
	Name     string  `json:"name"`
	State    string  `json:"state,omitempty"` // of a worker
	Done     int     `json:"done"`            // tasks of a worker
	Runs     string  `json:"runs,omitempty"`  // what a worker runs
	CPU      float64 `json:"cpu"`             // processors; -1 while that is not known
	Resident int64   `json:"resident"`        // bytes
	Shared   int64   `json:"shared"`          // bytes
}

// News is something that has gone wrong.
type News struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}
