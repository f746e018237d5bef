// Package pid1 stands above a program in its container.
//
// Process 1 ignores the signals that it has no handler for, its own included,
// and inherits the zombies of all others; engines join stdout and stderr, and
// may lose the word that memory ran out. So the program, told to by its
// environment, starts itself once more, passes signals on, reaps what dies,
// and writes what its child does and how it ends as package joined has it.
// That happens while this package is initialised, before the program's own.
package pid1

// key is the environment variable that asks for it, by its value.
const (
	key       = "FIBER_INIT"
	value     = "joined"
	envPrefix = key + "="
)

// Environment is what has a program become an init first.
func Environment() map[string]string { return map[string]string{key: value} }
