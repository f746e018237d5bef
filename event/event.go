// Package event has the types of what happens in a run, as fiber.Events yields them.
package event

import "time"

// Event is something that has happened.
type Event struct {
	Time    time.Time // by the clock of Process
	Process string    // where it happened: MainProcess, or another process that has started some or shares objects
	What    What      // one of the types of this package, not a pointer to it
}

// What says what has happened.
type What interface{ what() }

// CallBegan says that a call of Apply, Map, IMap or one of their variants was made.
type CallBegan struct {
	Pool  string // its name
	Call  uint64 // a number that no other call of the process has, as in fiber.Progress
	Func  string // the function's name
	Tasks int    // all of the call, -1 while an IMap's input goes on
	Kept  int    // of these, how many a checkpoint had finished
}

// CallEnded says that a call is over.
type CallEnded struct {
	Pool    string // its name
	Call    uint64 // as in CallBegan
	Func    string // the function's name
	Tasks   int    // all of the call; those that are in none of the next three were given up
	Kept    int    // those that a checkpoint had finished
	Done    int    // those that have returned
	Failed  int    // those that have failed
	Retried int    // how often tasks were started again
	Err     string // why it failed as a whole, or else its first failure; "" for neither
}

// Tasks says that tasks of a call have ended in a worker: a single one, or some that took less than a millisecond each.
type Tasks struct {
	Pool    string        // its name
	Call    uint64        // as in CallBegan
	Func    string        // the function's name
	Worker  string        // "" for a task whose input could not be sent
	Index   int           // of the first one's input
	Count   int           // at least 1
	Failed  int           // of Count
	Again   int           // of Count: those that have failed and run again, since Retries allows it; they are not among Failed
	Began   time.Time     // the first one
	Ended   time.Time     // the last one
	Took    time.Duration // all of them together
	Longest time.Duration // the longest one; of tasks below a microsecond or so, sixteen count as one
	Attempt int           // of a single task, from 1
	Bytes   int           // of the results, encoded
	Err     string        // the first failure
}

// WorkerStarting says that a pool starts a worker.
type WorkerStarting struct {
	Pool, Worker string // their names
}

// WorkerReady says that a worker takes tasks from now on.
type WorkerReady struct {
	Pool, Worker string        // their names
	Took         time.Duration // since WorkerStarting
}

// WorkerEnded says that a worker has ended, or that its start has failed.
type WorkerEnded struct {
	Pool, Worker string // their names
	Lost         bool   // it had been ready, and ended without being told to
	Ready        bool   // there was a WorkerReady
	Reason       string // how it ended; "" for a start that was given up
	Ran          string // what a lost one ran, in words; "" for nothing
	Tasks        string // what becomes of the tasks that a lost one held, in words
}

// ProcessStarted says that a process is up, whatever it was started for.
type ProcessStarted struct {
	Name   string        // its own
	Role   string        // worker, function, manager or ring
	Func   string        // its function, if it runs one
	ID     string        // pid, container or pod
	Host   string        // "" for this machine
	Memory int64         // its limit in bytes, 0 for none
	GPUs   []string      // those that it was lent
	Took   time.Duration // its start
}

// ProcessStatus says what a process uses. It comes every two seconds.
type ProcessStatus struct {
	Name     string        // as in ProcessStarted
	Resident int64         // bytes in memory that it does not share
	Shared   int64         // bytes of shared values that it sees or has fetched
	CPU      time.Duration // processor time since its start
	Sent     int64         // bytes to it, since its start
	Received int64         // bytes from it
}

// ProcessEnded says that a process has ended.
type ProcessEnded struct {
	Name  string   // as in ProcessStarted
	Role  string   // as in ProcessStarted
	ID    string   // as in ProcessStarted
	OK    bool     // it ended as it should
	How   string   // in words
	Words []string // the last lines of its stderr; nil if it is OK
}

// Waiting says why the start of a process has to wait: no node has room, for example.
type Waiting struct {
	Name   string // of the process
	Reason string // "" when it waits no longer
}

// Objects says which shared objects a process has. It comes every two seconds, as long as there are some, and once when there are none.
type Objects struct {
	List []Object // at most 1,000
	More int      // objects that are not listed
}

// Object is a shared object.
type Object struct {
	ID      uint64 // a number that no other object of the process has
	Kind    string // queue, pipe, lock, dict, value, shared value and so on
	Users   int    // processes that use it
	Length  int    // of a queue, a dict, a list or a pipe: what is in it; -1 for others
	Waiting int    // requests that wait at it
	Served  int64  // requests so far
	Bytes   int64  // of a shared value
	Holder  string // of a lock: the process that has it, "" for none
}

// Log is a message in Fiber's own log.
type Log struct {
	Level   string   // WARN, say
	Message string   // its text
	Attrs   []string // key=value
}

// Missed says that so many events were left out, since whoever reads them was slow. Counts of calls are right all the same in CallEnded.
type Missed struct {
	Events int // how many
	Tasks  int // that were in them
}

// RunEnded is the last event of a run.
type RunEnded struct {
	Err string // what the function of Main has returned, "" for nil
}

func (CallBegan) what()      {}
func (CallEnded) what()      {}
func (Tasks) what()          {}
func (WorkerStarting) what() {}
func (WorkerReady) what()    {}
func (WorkerEnded) what()    {}
func (ProcessStarted) what() {}
func (ProcessStatus) what()  {}
func (ProcessEnded) what()   {}
func (Waiting) what()        {}
func (Objects) what()        {}
func (Log) what()            {}
func (Missed) what()         {}
func (RunEnded) what()       {}
