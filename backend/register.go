package backend

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
)

// Plugin is a kind of backend that programs can name in FIBER_BACKEND. A package
// registers it in its init function; a program that imports the package has it:
//
//	import _ "example.com/fiber-ssh"
type Plugin struct {
	Name     string    // small letters and digits
	Settings []Setting // of its own
	// Make makes the backend, in the root, possibly twice, and in each process that may
	// start others by itself. It must not wait for an engine or a network.
	Make func(Options) (Backend, error)
	// Here reports whether this process is in a place that the backend made, and is
	// to use it unless told otherwise. nil is never.
	Here func() bool
}

// Setting is a setting of a plugin. It is given like all others: in
// fiber.Config's Settings, by its key; as a variable, FIBER_ and the key in
// capitals; in .fiberconfig; or by its default.
type Setting struct {
	Key     string // the plugin's name, _ and a word: ssh_hosts
	Meaning string // a sentence
	Default string // "" for none
	Allowed string // continues "is not " in the error for a value that Fits refuses
	// Fits reports whether a value is allowed; nil allows all.
	Fits func(value string) bool
}

// Options are what a plugin makes its backend with.
type Options struct {
	// Setting returns the value of a setting, the plugin's own or one of Fiber's, as
	// .fiberconfig would have it; "" is none. Fiber's paths are absolute.
	Setting func(key string) string
	// Log takes what fails after the jobs concerned have ended.
	Log *slog.Logger
}

// Submitter is a backend that can run the whole program elsewhere, its root included.
type Submitter interface {
	// Submit runs this program, with its arguments, where the backend's jobs run, if
	// the settings ask for that, and returns its exit code. The warnings are about the
	// configuration.
	Submit(warnings []string) (code int, gone bool)
}

// Placer is a backend that finds a machine for each job by itself: its jobs may
// have to wait for room, and have GPUs that the backend assigns.
type Placer interface{ PlacesJobs() }

// Avoider is a backend that heeds JobSpec.Avoid. Fiber then has it avoid machines
// on which starts fail, or processes are lost.
type Avoider interface{ AvoidsMachines() }

// Equipped is a backend with accelerators of its own. Fiber lends them to the jobs,
// as JobSpec.Devices. For other backends, those are the GPUs of the root's machine.
type Equipped interface {
	Accelerators(ctx context.Context) (devices []string, err error)
}

// Forwarder is a backend whose jobs can't dial this process by themselves; other
// connections of the run then go along the tree of its processes.
type Forwarder interface {
	// Forward opens a way to the address at which this process listens, for all jobs,
	// and returns the host and port that they dial. It is called once before the first
	// Launch, and again after it failed. The way stays open until Close.
	Forward(ctx context.Context, to net.Addr) (address string, err error)
}

// Waiter is a job that can say that it has yet to start.
type Waiter interface {
	// Pending reports whether the job has yet to start, and what it waits for,
	// "" if there is nothing to tell. It does not block.
	Pending() (reason string, pending bool)
}

var (
	plugins = map[string]Plugin{}
	word    = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
)

// Register makes a plugin known. It is called from init functions, and panics if the
// plugin can't be used or its name is taken.
func Register(p Plugin) {
	if !word.MatchString(p.Name) || p.Make == nil {
		panic(fmt.Sprintf("backend: Register: a plugin needs a name of small letters and digits, and Make: %q", p.Name))
	}
	if _, taken := plugins[p.Name]; taken {
		panic("backend: Register: there are two plugins " + p.Name)
	}
	for _, s := range p.Settings {
		if name, own := strings.CutPrefix(s.Key, p.Name+"_"); !own || !word.MatchString(strings.ReplaceAll(name, "_", "")) {
			panic(fmt.Sprintf("backend: Register: %q is not %s_ and a word of small letters, digits and _", s.Key, p.Name))
		}
	}
	plugins[p.Name] = p
}

// Plugins returns those that this program has, by name.
func Plugins() []Plugin {
	return slices.SortedFunc(maps.Values(plugins), func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
}

// Named returns the plugin of that name. With "" it is the one that is at home here,
// or else local.
func Named(name string) (p Plugin, found bool) {
	if name == "" {
		name = "local"
		for _, p := range plugins {
			if p.Here != nil && p.Here() {
				name = p.Name
			}
		}
	}
	p, found = plugins[name]
	return p, found
}
