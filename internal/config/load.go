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
}

// Load finds the value of every key: code wins over the environment, the environment over the file, and the file over
// the default. In the returned Config the paths are absolute. Every field that has a default is set; Backend and
// Executable may be "" (chosen by where the program runs; this program's own). Loading the result again changes
// nothing.
//
// The warnings name FIBER_ variables that belong to no key. The error joins one *[Error] for each fault. A value is
// checked even if a stronger source overrides it, but only the path that is used must exist.
func Load(code Config, from Sources) (Config, []string, error) {
	if from.Environ == nil {
		from.Environ = os.Environ()
	}
	dir, err := filepath.Abs(from.Dir)
	if err != nil {
		return Config{}, nil, fmt.Errorf("find the working directory: %w", err)
	}
	l := loader{origin: map[string]string{}}
	l.defaults(from.Environ)
	l.file(dir, filepath.Join(from.Dir, FileName))
	l.environ(from.Environ)
	l.code(code)
	warnings := unknownEnv(from.Environ)
	if len(l.faults) == 0 {
		l.settle(dir)
	}
	if err := errors.Join(l.faults...); err != nil {
		return Config{}, warnings, err
	}
	return l.config, warnings, nil
}

// Defaults returns the Config that Load returns when nothing is set.
func Defaults() Config {
	l := loader{origin: map[string]string{}}
	l.defaults(os.Environ())
	return l.config
}

// WithDefaults returns c with the defaults for all fields that are not set.
func (c Config) WithDefaults() Config {
	defaults := Defaults()
	for _, s := range settings() {
		if value := s.of(&c); value.IsZero() {
			value.Set(s.of(&defaults))
		}
	}
	return c
}

// loader gathers the configuration from its sources, the weakest first.
type loader struct {
	config Config
	origin map[string]string // key -> the source of its value
	faults []error
}

func (l *loader) defaults(environ []string) {
	for _, s := range settings() {
		if s.key == "runtime_dir" {
			s.initial = runtimeDir(environ)
		}
		if s.initial != "" {
			l.text(s, s.initial, "default")
		}
	}
}

func (l *loader) file(dir, name string) {
	lines, err := readFile(filepath.Join(dir, FileName), name)
	if err != nil {
		l.faults = append(l.faults, err)
	}
	for _, line := range lines {
		source := position(name, line.Number)
		if s := find(line.Key); s != nil {
			l.text(*s, line.Value, source)
		} else {
			l.faults = append(l.faults, unknownKey(line.Key, source))
		}
	}
}

func (l *loader) environ(environ []string) {
	for _, s := range settings() {
		if text, ok := lookup(environ, s.env); ok {
			l.text(s, text, "environment variable "+s.env)
		}
	}
}

func (l *loader) code(code Config) {
	for _, s := range settings() {
		// An empty list that is not nil is a value: it means none.
		if given := s.of(&code); !given.IsZero() {
			l.store(s, given, format(given), "code, Config."+s.field.Name, s.check(given))
		}
	}
}

func (l *loader) text(s setting, text, source string) {
	value := reflect.New(s.field.Type).Elem()
	err := parse(text, value)
	if err == nil {
		err = s.check(value)
	}
	l.store(s, value, text, source, err)
}

// store records a value of s and its source, or what is wrong with the value.
func (l *loader) store(s setting, value reflect.Value, text, source string, err error) {
	if err != nil {
		l.faults = append(l.faults, &Error{Key: s.key, Value: text, Source: source, Reason: err.Error(), Allowed: s.allowed})
		return
	}
	s.of(&l.config).Set(value)
	l.origin[s.key] = source
}

// settle checks what only the chosen values can show: paths, and values that depend on others.
func (l *loader) settle(dir string) {
	for _, s := range settings() {
		if value := s.of(&l.config); s.locate != nil && !value.IsZero() {
			text := format(value)
			locate := each(func(text string) (string, error) { return s.locate(text, dir) })
			l.store(s, value, text, l.origin[s.key], locate(value))
		}
	}
	if c := l.config; c.HeartbeatTimeout <= c.HeartbeatInterval {
		l.faults = append(l.faults, &Error{
			Key:    "heartbeat_timeout",
			Value:  c.HeartbeatTimeout.String(),
			Source: l.origin["heartbeat_timeout"],
			Reason: "is not longer than heartbeat_interval",
			Allowed: fmt.Sprintf("more than the %s of heartbeat_interval (%s)",
				c.HeartbeatInterval, l.origin["heartbeat_interval"]),
		})
	}
}

// runtimeDir returns the runtime directory of the user's login session or, if that cannot be used, the
// directory for temporary files. XDG_RUNTIME_DIR cannot be trusted blindly: su and containers pass on one
// that belongs to another user or does not exist.
func runtimeDir(environ []string) string {
	if dir, ok := lookup(environ, "XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) {
		if dir, err := existing(fitsDirectory)(dir, ""); err == nil {
			return dir
		}
	}
	return os.TempDir()
}

func unknownKey(name, source string) *Error {
	if near := nearest(name); near != "" {
		return &Error{Key: name, Source: source, Reason: fmt.Sprintf("is not a known key; did you mean %s?", near)}
	}
	var names []string
	for _, s := range settings() {
		names = append(names, s.key)
	}
	return &Error{Key: name, Source: source, Reason: "is not a known key", Allowed: orList(names)}
}
