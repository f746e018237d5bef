package config

import (
	"maps"
	"os"
	"slices"
	"strings"
)

const envPrefix = "FIBER_"

// variables has the values of environ, a list of "key=value" strings in which the last one of a name counts.
// An empty value counts as not set.
func variables(environ []string) map[string]string {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = strings.TrimSpace(value)
	}
	return values
}

// unknownVariables returns a warning for each FIBER_ variable that is set and belongs to no key. Such a variable is not
// an error: a Kubernetes service called fiber puts FIBER_PORT and the like into every pod.
func unknownVariables(environ map[string]string, others bool) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		key, ours := strings.CutPrefix(name, envPrefix)
		known := isKey(strings.ToLower(key)) && key == strings.ToUpper(key)
		// One names the file. The others Fiber itself puts into the environment of its children and its tests.
		known = known || name == FileKey || key == "BOOTSTRAP" || strings.HasPrefix(key, "TEST_")
		if known || !ours || environ[name] == "" || others && ofAnother(strings.ToLower(key)) {
			continue
		}
		warnings = append(warnings, "environment variable "+name+" is not a setting of Fiber and is ignored"+
			suggestion(strings.ToLower(key), envPrefix))
	}
	return warnings
}

// MovedKey is a variable of a program that Main has moved to a cluster.
const MovedKey = envPrefix + "MOVED"

// Moved reports whether this process is such a program. What its code sets is then in the environment, and does not count
// here: it may name files of the machine that the program comes from. Moved removes the variable, since programs that this
// one starts have not been moved.
func Moved() bool {
	_, moved := os.LookupEnv(MovedKey)
	os.Unsetenv(MovedKey)
	return moved
}

// Environ returns c as FIBER_ variables: all values that are not the default, except those of the given keys.
func Environ(c Config, except ...string) []string {
	defaults := Config{}.WithDefaults()
	var environ []string
	for _, s := range settings() {
		text := format(s.of(&c))
		if text != "" && text != format(s.of(&defaults)) && !slices.Contains(except, s.key) {
			environ = append(environ, s.env+"="+text)
		}
	}
	for _, s := range plugged() {
		if text := c.Settings[s.Key]; text != "" && text != s.Default {
			environ = append(environ, envPrefix+strings.ToUpper(s.Key)+"="+text)
		}
	}
	return environ
}
