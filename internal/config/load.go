package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Sources is where [Load] looks beside the code. The zero value is this process's environment and working directory.
type Sources struct {
	Environ []string // "key=value"; nil means os.Environ()
	Dir     string   // where .fiberconfig is, and where relative paths start; "" means the working directory
}

// Load finds the value of every key: code's over the environment's over the file's over the default. In the Config that
// it returns every field is set but Backend and Executable, which may be "" (chosen by where the program runs; this
// program's own), and the paths are absolute. Loading it again changes nothing.
//
// Warnings name FIBER_ variables that belong to no key. The error joins one *[Error] for each fault; a value is checked
// even where a stronger source overrides it, but only a path that is used must exist.
func Load(code Config, from Sources) (Config, []string, error) {
	if from.Environ == nil {
		from.Environ = os.Environ()
	}
	dir, err := filepath.Abs(from.Dir)
	if err != nil {
		return Config{}, nil, fmt.Errorf("find the working directory: %w", err)
	}
	l := loader{origin: map[string]string{}}
	l.defaults()
	l.file(dir, filepath.Join(from.Dir, FileName))
	l.environ(from.Environ)
	l.code(code)
	warnings := unknownEnv(from.Environ)
	if len(l.faults) == 0 {
		l.settle(dir, from.Environ)
	}
	if err := errors.Join(l.faults...); err != nil {
		return Config{}, warnings, err
	}
	return l.config, warnings, nil
}

// Defaults is what Load returns where nothing is set anywhere.
func Defaults() Config {
	l := loader{origin: map[string]string{}}
	l.defaults()
	l.config.RuntimeDir = runtimeDir(os.Environ())
	return l.config
}

// loader gathers the configuration from its sources, the weakest first.
type loader struct {
	config Config
	origin map[string]string // key -> the source of its value
	faults []error
}

func (l *loader) defaults() {
	for _, s := range settings {
		if text := s.fallback(); text != "" {
			l.set(s, text, "default")
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
			l.set(s, line.Value, source)
			continue
		}
		l.faults = append(l.faults, unknownKey(line.Key, source))
	}
}

func (l *loader) environ(environ []string) {
	for _, s := range settings {
		name := s.key().Env
		if text, ok := lookup(environ, name); ok {
			l.set(s, text, "environment variable "+name)
		}
	}
}

func (l *loader) code(code Config) {
	for _, s := range settings {
		given, err := s.override(&l.config, code)
		if given {
			l.note(s, s.text(code), "code, Config."+s.key().Field, err)
		}
	}
}

func (l *loader) set(s setting, text, source string) {
	l.note(s, text, source, s.parse(&l.config, text))
}

// note records where the value of s came from, or what is wrong with it.
func (l *loader) note(s setting, text, source string, err error) {
	key := s.key()
	l.origin[key.Name] = source
	if err != nil {
		l.faults = append(l.faults, &Error{
			Key: key.Name, Value: text, Source: source, Reason: err.Error(), Allowed: key.Allowed,
		})
	}
}

// settle checks what only the chosen values show.
func (l *loader) settle(dir string, environ []string) {
	if l.config.RuntimeDir == "" {
		l.config.RuntimeDir, l.origin["runtime_dir"] = runtimeDir(environ), "default"
	}
	for _, s := range settings {
		if err := s.locate(&l.config, dir); err != nil {
			l.note(s, s.text(l.config), l.origin[s.key().Name], err)
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

// runtimeDir is the directory that the user's login session has for this, else the one for temporary files.
// XDG_RUNTIME_DIR is not to be trusted blindly: su and containers pass on one that is another user's, or is not there.
func runtimeDir(environ []string) string {
	if dir, ok := lookup(environ, "XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) && checkDirectory(dir) == nil {
		return filepath.Clean(dir)
	}
	return os.TempDir()
}

func unknownKey(name, source string) *Error {
	if near := nearest(name); near != "" {
		return &Error{Key: name, Source: source, Reason: fmt.Sprintf("is no known key; did you mean %s?", near)}
	}
	names := make([]string, len(settings))
	for i, key := range Keys() {
		names[i] = key.Name
	}
	return &Error{Key: name, Source: source, Reason: "is no known key", Allowed: orList(names)}
}
