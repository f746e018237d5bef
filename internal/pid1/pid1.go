// Package pid1 stands above a program in its container.
//
// Process 1 ignores the signals that it has no handler for, its own included,
// and inherits the zombies of all others. Where no engine puts an init above
// the program, the program does: told to by its environment, it starts itself
// once more, passes signals on, reaps what dies, and ends as its child did.
// Where the engine joins stdout and stderr it also keeps the two apart, as
// package joined does. That happens while this package is initialised, before
// the program's own.
package pid1

// key is the environment variable that asks for it, by one of these values.
const (
	key       = "FIBER_INIT"
	asInit    = "1"      // if it is process 1
	withTwo   = "joined" // in any case, and with its outputs joined
	envPrefix = key + "="
)

// Environment is what has a program become an init first.
func Environment() map[string]string { return map[string]string{key: asInit} }

// Joined is what has a program become an init that joins its outputs.
func Joined() map[string]string { return map[string]string{key: withTwo} }
