package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

// Sources is where [Load] looks besides the code. The zero value means this process's environment and working
// directory.
type Sources struct {
	Environ []string // "key=value"; nil means os.Environ()
	Dir     string   // where .fiberconfig is, and where relative paths start; "" means the working directory
	// Others: backends that only other programs have, and their settings, are no mistakes; Config.Settings has these.
	Others bool
}

// Load finds the value of every key: code wins over the environment, the environment over the file, and the file over
// the default. In the returned Config the paths are absolute. Every field that has a default is set; Backend and
// Executable may be "" (chosen by where the program runs; this program's own). Loading the result again changes
// nothing.
//
// The warnings name FIBER_ variables that belong to no key. The error joins one for each fault. Of several values for a
// key, the one that wins is checked.
func Load(code Config, from Sources) (Config, []string, error) {
	if from.Environ == nil {
		from.Environ = os.Environ()
	}
	dir, err := filepath.Abs(from.Dir)
	if err != nil {
		return Config{}, nil, fmt.Errorf("find the working directory: %w", err)
	}
	environ := variables(from.Environ)
	lines, warning, faults := readFile(environ[FileKey], dir, filepath.Join(from.Dir, FileName), from.Others)
	warnings := unknownVariables(environ, from.Others)
	if warning != "" {
		warnings = append(warnings, warning)
	}
	c := Config{Logger: code.Logger}
	sources := map[string]string{} // of the values, by key
	for _, s := range settings() {
		value := s.of(&c)
		source, text, err := s.find(code, environ, lines, value)
		if text != "" && (err != nil || !s.fits(value, dir)) && !(from.Others && s.key == "backend" && ofAnother(text+"_")) {
			faults = append(faults, fmt.Errorf("%s: %s = %q is not %s%s", source, s.key, text, s.allowed, s.hint(value)))
		}
		sources[s.key] = source
	}
	if err := c.loadPlugged(code, environ, lines); err != nil {
		faults = append(faults, err)
	}
	if from.Others {
		c.others(environ, lines)
	}
	if len(faults) == 0 && c.HeartbeatTimeout <= c.HeartbeatInterval {
		faults = append(faults, fmt.Errorf("%s: heartbeat_timeout = %q is not longer than the %s of heartbeat_interval (%s)",
			sources["heartbeat_timeout"], c.HeartbeatTimeout, c.HeartbeatInterval, sources["heartbeat_interval"]))
	}
	if err := errors.Join(faults...); err != nil {
		return Config{}, warnings, err
	}
	return c, warnings, nil
}

// find sets value to that of s from the strongest source that has one, and returns the source and the text there.
func (s setting) find(code Config, environ map[string]string, lines map[string]Line, value reflect.Value) (source, text string, err error) {
	// An empty list that is not nil is a value: it means none.
	if given := s.of(&code); !given.IsZero() {
		value.Set(given)
		return "code, Config." + s.field.Name, format(given), nil
	}
	if source, text = lookup(s.key, s.initial, environ, lines); text == "" && s.key == "runtime_dir" {
		text = runtimeDir(environ)
	}
	if text != "" {
		err = parse(text, value)
	}
	return source, text, err
}

// WithDefaults returns c with the defaults for all fields that are not set, whatever the environment and the file say.
func (c Config) WithDefaults() Config {
	environ := map[string]string{sessionDir: os.Getenv(sessionDir)}
	for _, s := range settings() {
		_, _, _ = s.find(c, environ, nil, s.of(&c))
	}
	return c
}

const sessionDir = "XDG_RUNTIME_DIR"

// runtimeDir returns the runtime directory of the user's login session or, if that cannot be used, the
// directory for temporary files. XDG_RUNTIME_DIR cannot be trusted blindly: su and containers pass on one
// that belongs to another user or does not exist.
func runtimeDir(environ map[string]string) string {
	if dir := environ[sessionDir]; filepath.IsAbs(dir) {
		if path, ok := writable(dir, ""); ok {
			return path
		}
	}
	return filepath.Clean(os.TempDir())
}
