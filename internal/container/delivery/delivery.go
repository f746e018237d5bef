// Package delivery hands the output of a program in a container from the init, its Sender, to one reader: whole, in order
// and no faster than the reader passes it on, which the logs of a cluster do not.
//
// The output is a stream of bytes with positions. The reader says at which position it goes on, and how far it has passed
// the stream on; the sender keeps the rest. If a connection breaks, another one takes its place, and nothing is lost or
// doubled. A sender that fills up makes the program wait. If there is no reader for as long as patience, it drops the oldest
// output, and tells the next reader how much that was.
package delivery

import (
	"encoding/json"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// Key is the environment variable of an init with its Target.
const Key = "FIBER_OUTPUT"

// Target says how an init and the reader of its output find each other. It is JSON in the environment.
type Target struct {
	Endpoint string `json:"endpoint,omitempty"` // where the reader listens
	Process  string `json:"process,omitempty"`  // the id that the reader expects there
	Port     int    `json:"port,omitempty"`     // where the init listens, within its pod, if there is no endpoint
	// Credentials let the reader in, and the init. In a pod of a run they are the run's, which have a variable of their own.
	Credentials []byte        `json:"credentials,omitempty"`
	Heartbeat   time.Duration `json:"heartbeat,omitempty"`
	Silence     time.Duration `json:"silence,omitempty"` // how long the other end may be silent
}

// String returns the target as Deliver takes it.
func (t Target) String() string {
	text, _ := json.Marshal(t) // never fails
	return string(text)
}

func (t Target) options() transport.Options {
	return transport.Options{HeartbeatInterval: t.Heartbeat, HeartbeatTimeout: t.Silence}
}

const (
	// window is how many bytes of the output wait to be passed on while the program runs.
	window = 512 << 10
	// rest is how many more a program that has ended may leave behind: what was in its pipes.
	rest = 512 << 10
	// piece is how many bytes a message has at most, except for the rest of a line.
	piece = 32 << 10
	// maxMessage bounds a message.
	maxMessage = 256 << 10
	// patience is how long a program waits for a reader that is away.
	patience = time.Minute
)
