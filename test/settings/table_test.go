//go:build unix

package settings_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// The places where the program runs, with the settings from each of the sources.
const (
	local   = "local"
	docker  = "docker"
	outside = "kubernetes-outside"
	moved   = "kubernetes-moved" // the root, by Main
)

// A setting is given in the run that looks at everything, in a brief one, or in both: some exclude each other.
const (
	full  = 1
	brief = 2
)

// row is a setting.
type row struct {
	key    string
	runs   int
	value  func(g *ground) string // what it is set to
	effect func(g *ground) effects
}

// effects are regular expressions for what the root, its worker and the worker's child see; or, behind a dash, why there is
// nothing to be seen.
type effects [levels]string

func everywhere(pattern string) effects { return effects{pattern, pattern, pattern} }

// belowRoot says that the root sees nothing since it is the user's own process.
func belowRoot(pattern string) effects {
	return effects{"- it runs as it was started", pattern, pattern}
}

func nowhere(why string) effects { return everywhere("- " + why) }

// pods are effects on all pods.
func pods(pattern string) func(*ground) effects {
	return func(g *ground) effects {
		switch g.place {
		case outside:
			return belowRoot(pattern)
		case moved:
			return everywhere(pattern)
		}
		return nowhere("there are no pods")
	}
}

// containers are effects on the containers of a docker engine.
func containers(pattern string) func(*ground) effects {
	return func(g *ground) effects {
		if g.place == docker {
			return belowRoot(pattern)
		}
		return nowhere("there is no docker engine")
	}
}

// rootOnly are effects on a root that is moved.
func rootOnly(pattern string) func(*ground) effects {
	return func(g *ground) effects {
		if g.place == moved {
			return effects{pattern, "- it is about the root", "- it is about the root"}
		}
		return nowhere("the root is not moved")
	}
}

// processes are effects on all processes.
func processes(pattern string) func(*ground) effects {
	return func(*ground) effects { return everywhere(pattern) }
}

// written are the effects on a file that is here when the program has ended, wherever its root was.
func written(*ground) effects {
	return effects{"^written$", "- the root writes it", "- the root writes it"}
}

func word(text string) func(*ground) string { return func(*ground) string { return text } }

func exactly(text string) string { return "^" + regexp.QuoteMeta(text) + "$" }

var table = []row{
	{"backend", full | brief, func(g *ground) string { return g.backend() },
		func(g *ground) effects {
			return everywhere(exactly(map[string]string{local: "process", docker: "container", outside: "pod", moved: "pod"}[g.place]))
		}},
	{"executable", full, func(g *ground) string { return g.executable },
		func(g *ground) effects {
			if g.place == moved {
				return everywhere(exactly(strconv.FormatInt(g.size, 10)))
			}
			return belowRoot(exactly(strconv.FormatInt(g.size, 10)))
		}},
	{"image", brief, func(g *ground) string { return g.image }, inImage},
	{"base_image", full, func(g *ground) string { return g.base }, inImage},
	{"allow_other_build", full, word("on"),
		func(g *ground) effects {
			if g.place == moved {
				return nowhere("all pods have the root's image")
			}
			return belowRoot(exactly(strconv.FormatInt(g.size, 10)))
		}},

	{"host", full, func(g *ground) string { return g.host },
		func(g *ground) effects {
			switch g.place {
			case local:
				return nowhere("processes inherit their connections")
			case moved:
				return nowhere("it would keep the root here")
			}
			return effects{"- it reports to nobody", exactly(g.host), "- it dials the worker"}
		}},
	{"env", full | brief, word(fmt.Sprintf("TEST_PROGRAM,%s,%s,%s,SETTINGS_ENV=arrived", codeKey, gpuKey, briefKey)),
		func(g *ground) effects {
			switch g.place {
			case local:
				return nowhere("processes here have the program's environment")
			case moved:
				return everywhere("^arrived$")
			}
			return belowRoot("^arrived$")
		}},
	{"docker_network", full, func(g *ground) string { return g.network },
		func(g *ground) effects { return containers(`(^| )` + regexp.QuoteMeta(g.subnet))(g) }},
	{"docker_volumes", full, func(g *ground) string { return filepath.Dir(g.executable) + ":" + volumePath }, containers("^true$")},
	{"docker_capabilities", full, word("NET_RAW"), containers("^0*2000$")},
	{"docker_new_privileges", full, word("on"), containers("^0$")},
	{"docker_pids_limit", full, word("777"), containers("^777$")},

	{"registry", full | brief, func(g *ground) string { return g.registry },
		func(g *ground) effects { return pods("^" + regexp.QuoteMeta(g.registry+"/"))(g) }},
	{"registry_insecure", full, word("on"), func(*ground) effects { return nowhere("TestRegistryInsecure shows it in the root, which pushes") }},
	{"root_cpu", full, word("0.5"), rootOnly(`^50000( 100000)?$`)},
	{"root_memory", full, word("300MiB"), rootOnly("^314572800$")},
	{"root_gpu", full, word("1"), rootOnly("^1 ")},

	{"kubernetes_namespace", full | brief, func(g *ground) string { return g.namespace },
		func(g *ground) effects { return pods(exactly(g.namespace))(g) }},
	{"kubernetes_volumes", full, word("data:" + claimPath), pods("^true$")},
	{"kubernetes_gpu_resource", full, word(gpuResource), pods("^1 " + regexp.QuoteMeta(gpuResource) + "$")},
	{"pod_template", full, func(g *ground) string { return g.template }, pods("^template$")},

	{"log_level", full, word("debug"), processes("^DEBUG$")},
	{"log_file", full, func(g *ground) string { return filepath.Join(g.logs, "%p.log") },
		func(g *ground) effects {
			switch g.place {
			case local:
				return everywhere("^file$")
			case moved:
				return everywhere("^stderr$")
			}
			return effects{"^file$", "^stderr$", "^stderr$"}
		}},
	{"forward_logs", brief, word("off"),
		func(g *ground) effects { return effects{"- its output is the program's", "^silent$", "^silent$"} }},
	{"log_prefix", full, word("off"),
		func(g *ground) effects { return effects{"- its output is the program's", "^bare$", "^bare$"} }},

	{"report", full, func(g *ground) string { return filepath.Join(g.logs, "run.html") }, written},
	{"trace", full, func(g *ground) string { return filepath.Join(g.logs, "run.json.gz") }, written},
	{"dashboard", full, word("127.0.0.1:0"),
		func(*ground) effects { return effects{"^printed$", "- the root serves it", "- the root serves it"} }},
	{"metrics", full, word("127.0.0.1:0"),
		func(*ground) effects { return effects{"^printed$", "- the root serves it", "- the root serves it"} }},

	{"heartbeat_interval", full, word(heartbeat.String()), processes("^true,")},
	{"heartbeat_timeout", full, word("9s"), processes(`nothing heard from it for 9s \(heartbeat_timeout\)`)},
	{"start_timeout", full, func(g *ground) string { return g.deadline },
		func(g *ground) effects { return everywhere("not up after " + g.deadline + ` \(start_timeout\)`) }},
	{"shutdown_grace", full, word("1h"), processes("^lingered$")},
	{"cancel_grace", full, word("300ms"), processes(`^1 killed after 300ms$`)},

	{"max_message", full, word("1MiB"), processes("exceeds the limit of 1048576;")},
	{"share_memory", full, word("64KiB"), processes(`^on disk$|\(share_memory\), nor on disk`)},
	{"runtime_dir", full, func(g *ground) string { return g.runtime },
		func(g *ground) effects {
			if g.place == local {
				return everywhere("(^| )" + regexp.QuoteMeta(g.runtime) + "/fiber-")
			}
			return nowhere("there are no sockets of this machine alone") // nor one for containers, since host is set
		}},
}

// inImage are effects on whatever runs in an image.
func inImage(g *ground) effects {
	switch g.place {
	case local:
		return nowhere("there are no images")
	case docker:
		return belowRoot("^marked$")
	}
	return pods("^marked$")(g)
}
