// Package pid1 is the init of a container: process 1, with the program as its
// child.
//
// Process 1 ignores signals that it has no handler for, even its own, and
// inherits the zombies of all other processes. Engines join stdout and stderr,
// and may fail to report that memory ran out. So if its environment asks for it,
// the program starts itself once more: process 1 passes signals on, reaps what
// dies, and writes the outputs and the end of its child in the format of package
// logmux. It also delivers them to a reader, where package delivery is asked for
// that. All of that happens in the initialisation of this package, before the
// program's own packages.
package pid1

// An environment variable with this key and value makes a program start as an init.
const (
	Key   = "FIBER_INIT"
	Value = "joined"
)

// FenceKey is the variable of a program that has a guard, which some other package
// is: that one calls Run, before the program's own packages, too.
const FenceKey = "FIBER_RESTART"
