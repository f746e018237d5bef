package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/backend"
)

// plugged returns the settings of the plugins that this program has.
func plugged() (all []backend.Setting) {
	for _, p := range backend.Plugins() {
		all = append(all, p.Settings...)
	}
	return all
}

// loadPlugged sets the plugins' settings in c, from the same sources as Fiber's own.
func (c *Config) loadPlugged(code Config, environ map[string]string, lines map[string]Line) error {
	var faults []error
	unknown := maps.Clone(code.Settings)
	c.Settings = nil
	for _, s := range plugged() {
		source, text := "code, Config.Settings", code.Settings[s.Key]
		if text == "" {
			source, text = lookup(s.Key, s.Default, environ, lines)
		}
		delete(unknown, s.Key)
		switch {
		case slices.ContainsFunc(settings(), func(own setting) bool { return own.key == s.Key }):
			faults = append(faults, fmt.Errorf("%s is a setting of Fiber's, and one of a plugin", s.Key))
		case text == "":
		case strings.ContainsRune(text, 0) || s.Fits != nil && !s.Fits(text):
			faults = append(faults, fmt.Errorf("%s: %s = %q is not %s", source, s.Key, text, s.Allowed))
		default:
			c.plug(s.Key, text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unknown)) {
		if slices.ContainsFunc(settings(), func(own setting) bool { return own.key == key }) {
			faults = append(faults, fmt.Errorf("code, Config.Settings: %s is a setting of Fiber's own: set its field of Config", key))
			continue
		}
		faults = append(faults, fmt.Errorf("code, Config.Settings: %s is not a setting of a plugin that this program has%s", key, suggestion(key, "")))
	}
	return errors.Join(faults...)
}

func (c *Config) plug(key, text string) {
	if c.Settings == nil {
		c.Settings = map[string]string{}
	}
	c.Settings[key] = text
}

// others sets in c what is set for its backend, if this program does not have that one.
func (c *Config) others(environ map[string]string, lines map[string]Line) {
	given := slices.Collect(maps.Keys(lines))
	for name := range environ {
		given = append(given, strings.ToLower(strings.TrimPrefix(name, envPrefix)))
	}
	for _, key := range given {
		if _, text := lookup(key, "", environ, lines); text != "" && strings.HasPrefix(key, c.Backend+"_") && ofAnother(key) {
			c.plug(key, text)
		}
	}
}

// ofAnother reports whether a key may be that of a backend which this program does not have.
func ofAnother(key string) bool {
	name, _, found := strings.Cut(key, "_")
	_, is := matching("[a-z][a-z0-9]*")(name, "")
	return found && is && !slices.ContainsFunc(keys(), func(own string) bool { return own == name || strings.HasPrefix(own, name+"_") })
}

// lookup returns the text of a setting that code does not set, and its source.
func lookup(key, initial string, environ map[string]string, lines map[string]Line) (source, text string) {
	name := envPrefix + strings.ToUpper(key)
	if text := environ[name]; text != "" {
		return "environment variable " + name, text
	}
	if line, found := lines[key]; found {
		return line.Source, line.Value
	}
	return "default", initial
}

// Text returns the value of a setting, Fiber's own or a plugin's, as .fiberconfig would have it.
func (c Config) Text(key string) string {
	for _, s := range settings() {
		if value := s.of(&c); s.key == key && !value.IsZero() {
			return format(value)
		}
	}
	return c.Settings[key]
}

// Of returns the Config whose values text returns.
func Of(text func(key string) string) (c Config) {
	for _, s := range settings() {
		if value := text(s.key); value != "" {
			_ = parse(value, s.of(&c)) // it was checked
		}
	}
	for _, s := range plugged() {
		if value := text(s.Key); value != "" {
			c.plug(s.Key, value)
		}
	}
	return c
}

// backends is the kind of the names of the plugins that this program has.
func backends() kind {
	var all []string
	for _, p := range backend.Plugins() {
		all = append(all, p.Name)
	}
	return oneOf(all)
}
