package config

import (
	"slices"
	"strings"
)

const envPrefix = "FIBER_"

// internalEnv reports whether Fiber itself puts the variable into the environment of its children or its
// tests.
func internalEnv(name string) bool {
	return name == envPrefix+"BOOTSTRAP" || strings.HasPrefix(name, envPrefix+"TEST_")
}

// lookup finds the value of name in environ, a list of "key=value" strings in which the last one of a name counts.
// An empty value counts as not set.
func lookup(environ []string, name string) (string, bool) {
	for _, entry := range slices.Backward(environ) {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			value = strings.TrimSpace(value)
			return value, value != ""
		}
	}
	return "", false
}

// unknownEnv returns a warning for each FIBER_ variable that is set and belongs to no key. Such a variable is not an
// error: a Kubernetes service called fiber puts FIBER_PORT and the like into every pod.
func unknownEnv(environ []string) []string {
	var names []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		known := find(strings.ToLower(strings.TrimPrefix(name, envPrefix))) != nil && name == strings.ToUpper(name)
		if strings.HasPrefix(name, envPrefix) && strings.TrimSpace(value) != "" && !known && !internalEnv(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var warnings []string
	for _, name := range slices.Compact(names) {
		warning := "environment variable " + name + " is not a setting of Fiber and is ignored"
		if near := nearest(strings.ToLower(strings.TrimPrefix(name, envPrefix))); near != "" {
			warning += "; did you mean " + envPrefix + strings.ToUpper(near) + "?"
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

// Environ returns c as FIBER_ variables: all values that are not the default, except those of the given keys.
func Environ(c Config, except ...string) []string {
	defaults := Defaults()
	var environ []string
	for _, s := range settings() {
		text := format(s.of(&c))
		if text != "" && text != format(s.of(&defaults)) && !slices.Contains(except, s.key) {
			environ = append(environ, s.env+"="+text)
		}
	}
	return environ
}
