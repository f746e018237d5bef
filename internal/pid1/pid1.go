// Package pid1 keeps a program from being process 1 of its container.
//
// Process 1 ignores the signals that it has no handler for, its own included,
// and inherits the zombies of all others. Where no engine puts an init above
// the program, the program does: told to by its environment, it starts itself
// once more, passes signals on, reaps what dies, and ends as its child did.
// That happens while this package is initialised, before the program's own.
package pid1

// key is the environment variable that asks for it.
const key = "FIBER_INIT"

// Environment is what has a program become an init first.
func Environment() map[string]string { return map[string]string{key: "1"} }
