package config

import (
	"cmp"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// kind describes the values that a setting may have.
type kind struct {
	name    string // of the type, in docs/config.md
	allowed string // continues "is not "
	// fits reports whether a value is allowed, and brings it into its canonical form: a path becomes absolute, starting
	// at dir if it is relative.
	fits func(value reflect.Value, dir string) bool
}

// form returns the canonical form of a text, and whether it is allowed.
type form func(text, dir string) (string, bool)

// kinds has the kinds, by the kind tag of a field or the name of its type.
var kinds = map[string]kind{
	"Switch": {"boolean", "on, true, yes or 1; off, false, no or 0 (in code: On or Off)", one(Switch.valid)},
	// The least duration catches 10 written for 10*time.Second, which is ten nanoseconds.
	"Duration": {"duration", "a duration of at least 1ms, such as 500ms, 10s or 1m30s", atLeast(time.Millisecond)},
	// Fiber's own messages need the least size.
	"ByteSize":  {"size", "a whole number of B, KiB, MiB or GiB, at least 4KiB, such as 512MiB", atLeast(4 * KiB)},
	"processes": {"number", "a whole number of processes and threads, at least 1", atLeast(1)},
	"gpus":      {"number", "a whole number of GPUs, such as 1", atLeast(0)},
	"cpus":      {"number", "a number of CPUs, such as 2 or 0.5", atLeast(0.001)},

	"address":  {"address", "an IP address that can be dialled or the name of a host, without a port", each(address)},
	"listener": {"address", "an address of this machine and a port, such as 127.0.0.1:8080, or 127.0.0.1:0 for any free port", each(listener)},
	"open listener": {"address", "an address of this machine and a port, such as 127.0.0.1:9090, or :9090 for all of its addresses",
		each(openListener)},
	"network":   {"name", "the name of a network other than none", each(network)},
	"namespace": {"name", "the name of a namespace: small letters, digits and -, at most 63", each(names(validation.IsDNS1123Label))},
	"resource": {"name", "the name of a resource that nodes have, such as nvidia.com/gpu or amd.com/gpu",
		each(names(validation.IsQualifiedName))},
	"capabilities": {"list", "a list of Linux capabilities, such as DAC_OVERRIDE, separated by commas; or ALL", each(capability)},
	"variables":    {"variables", "a list of NAME, PREFIX_*, NAME=value or *, separated by commas", each(matching(variable))},

	"volumes": {"list", "a list of host:container or host:container:ro, separated by commas; host is a path, which starts " +
		"with / or ., or the name of a volume, container an absolute path, not the same twice", volumes(dockerVolume)},
	"claims": {"list", "a list of claim, claim:path or claim:path:ro, separated by commas; claim is the name of a " +
		"PersistentVolumeClaim, path an absolute one, not the same twice, " + VolumePath + " unless it is given", volumes(claim)},

	"image": {"image", "an image's name, such as debian:12 or registry.example.com/team/app:v1", each(image)},
	"base image": {"image", "an image's name, such as debian:12, or the path of an image: a file (docker save) or " +
		"a directory (an OCI layout)", each(baseImage)},
	"registry": {"registry", "a registry, with a path or without: registry.example.com/team or localhost:5000",
		each(registry)},

	"executable": {"path", "the path of an executable file", each(existing(executable))},
	"template":   {"path", "the path of a file with a pod in YAML", each(existing(fs.FileMode.IsRegular))},
	"directory":  {"path", "the path of a directory that exists and is writable", each(writable)},
	"output":     {"path", "the path of a file", each(outputFile)},
	"log": {"path", `stderr, stdout, or the path of a file in a directory that exists, with "%p" in the file's name only`,
		each(logFile)},
}

// oneOf returns the kind for one of the given words, in any case.
func oneOf(words []string) kind {
	allowed := strings.Join(words, ", ")
	if last := strings.LastIndex(allowed, ", "); last >= 0 {
		allowed = allowed[:last] + " or" + allowed[last+1:]
	}
	return kind{"word", allowed, each(func(s, _ string) (string, bool) {
		s = strings.ToLower(s)
		return s, slices.Contains(words, s)
	})}
}

// one tests a value of one type.
func one[T any](fits func(T) bool) func(reflect.Value, string) bool {
	return func(value reflect.Value, _ string) bool { return fits(value.Interface().(T)) }
}

// atLeast tests a number. NaN is none.
func atLeast[T cmp.Ordered](least T) func(reflect.Value, string) bool {
	return one(func(n T) bool { return n >= least })
}

// each replaces a text, or each text of a list, by what form returns for it.
func each(form form) func(reflect.Value, string) bool {
	return func(value reflect.Value, dir string) bool {
		if strings.ContainsRune(format(value), 0) {
			return false
		}
		if value.Kind() == reflect.String {
			text, ok := form(value.String(), dir)
			value.SetString(text)
			return ok
		}
		list := slices.Clone(value.Interface().([]string)) // the original is the user's
		for i, item := range list {
			var ok bool
			if list[i], ok = form(item, dir); !ok {
				return false
			}
		}
		value.Set(reflect.ValueOf(list))
		return true
	}
}
