package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// kind describes the values that a setting may have.
type kind struct {
	name    string // of the type, in docs/config.md
	allowed string
	check   func(reflect.Value) error // returns what is wrong with a value, or else brings it into its canonical form
	// locate, unless nil, ties a text of the chosen value to this machine: a path becomes absolute and must exist.
	locate func(text, dir string) (string, error)
}

// kinds has the kinds, by the kind tag of a field or the name of its type.
var kinds = map[string]kind{
	"Switch": {"boolean", "on, true, yes or 1; off, false, no or 0 (in code: On or Off)",
		within(float64(Off), float64(On), "is neither On nor Off"), nil},
	"Duration": {"duration", "a duration of at least 1ms, such as 500ms, 10s or 1m30s",
		atLeast(minDuration, "is too short"), nil},
	"ByteSize": {"size", "a whole number of B, KiB, MiB or GiB, at least 4KiB, such as 512MiB",
		atLeast(minMessage, "is too small"), nil},
	"processes": {"number", "a whole number of processes and threads, at least 1", atLeast(1, "is less than one"), nil},
	"gpus":      {"number", "a whole number of GPUs, such as 1", atLeast(0, "is less than zero"), nil},
	"cpus":      {"number", "a number of CPUs, such as 2 or 0.5", atLeast(0.001, "is not a number of CPUs"), nil},

	"address": {"address", "an IP address or the name of a host, without a port", each(checkAddress), nil},
	"network": {"name", "the name of a network other than none", each(checkNetwork), nil},
	"namespace": {"name", "the name of a namespace: small letters, digits and -, at most 63",
		each(namespaceName.check), nil},
	"resource": {"name", "the name of a resource that nodes have, such as nvidia.com/gpu or amd.com/gpu",
		each(resourceName.check), nil},
	"capabilities": {"list", "names of Linux capabilities, such as DAC_OVERRIDE, several separated by commas; or ALL",
		each(checkCapability), nil},
	"variables": {"variables", "NAME, PREFIX_* or NAME=value, several separated by commas", each(variable.check), nil},

	"volumes": {"list", "host:container or host:container:ro, several separated by commas; " +
		"host is a path or the name of a volume, container an absolute path",
		volumes("volumes", parseDockerVolume), locateVolume},
	"claims": {"list", "claim, claim:path or claim:path:ro, several separated by commas; claim is the name of a " +
		"PersistentVolumeClaim, path an absolute one, " + VolumePath + " unless it is given",
		volumes("claims", ParseClaim), nil},

	"image": {"image", "an image's name, such as debian:12 or registry.example.com/team/app:v1", each(checkImage), nil},
	"base image": {"image", "an image's name, such as debian:12, or the path of an image: a file (docker save) or " +
		"a directory (an OCI layout)", each(checkBaseImage), locateBaseImage},
	"registry": {"registry", "a registry, with a path or without: registry.example.com/team or localhost:5000",
		each(checkRegistry), nil},

	"executable": {"path", "the path of an executable file", each(verbatim), existing(fitsExecutable)},
	"template":   {"path", "the path of a file with a pod in YAML", each(verbatim), existing(fitsFile)},
	"directory":  {"path", "the path of a directory that exists and is writable", each(verbatim), existing(fitsDirectory)},
	"log": {"path", `stderr, stdout, or the path of a file in a directory that exists, with "%p" in the file's name only`,
		each(checkLog), locateLog},
}

const (
	// minDuration catches 10 written for 10*time.Second, which is ten
	// nanoseconds. No setting makes sense below a millisecond.
	minDuration = float64(time.Millisecond)
	// minMessage is the size that Fiber's own messages need.
	minMessage = float64(4 * KiB)
)

// oneOf returns the kind for one of the given words, in any case.
func oneOf(words []string) kind {
	check := func(s string) (string, error) {
		if s = strings.ToLower(s); !slices.Contains(words, s) {
			return "", errors.New("is not known")
		}
		return s, nil
	}
	return kind{"word", orList(words), each(check), nil}
}

func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func verbatim(s string) (string, error) { return s, nil }

func atLeast(least float64, reason string) func(reflect.Value) error {
	return within(least, math.MaxFloat64, reason)
}

// within checks a number, whatever its type.
func within(least, most float64, reason string) func(reflect.Value) error {
	return func(value reflect.Value) error {
		n := value.Convert(reflect.TypeFor[float64]()).Float()
		if !(n >= least && n <= most) { // also true for NaN
			return errors.New(reason)
		}
		return nil
	}
}

// each replaces a text, or each text of a list, by what change returns for it.
func each(change func(string) (string, error)) func(reflect.Value) error {
	return func(value reflect.Value) error {
		if strings.ContainsRune(format(value), 0) {
			return errors.New("has a zero byte in it")
		}
		if value.Kind() == reflect.String {
			text, err := change(value.String())
			value.SetString(text)
			return err
		}
		list := slices.Clone(value.Interface().([]string)) // the original is the user's
		for i, item := range list {
			var err error
			if list[i], err = change(item); err != nil {
				return fmt.Errorf("has %q in it, %w", item, err)
			}
		}
		value.Set(reflect.ValueOf(list))
		return nil
	}
}
