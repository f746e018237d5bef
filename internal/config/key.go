package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Key describes one setting, for messages and documentation.
type Key struct {
	Name    string // as in .fiberconfig: heartbeat_timeout
	Env     string // FIBER_HEARTBEAT_TIMEOUT
	Field   string // of Config: HeartbeatTimeout
	Type    string // word, path, image, name, address, list, boolean, duration or size
	Allowed string // what the value may be
	Default string // in words where it is not the same everywhere
	Meaning string
}

// Keys returns every key in the order of Config's fields.
func Keys() []Key {
	keys := make([]Key, len(settings))
	for i, s := range settings {
		keys[i] = s.key()
	}
	return keys
}

// setting is one row of the table: a key and what can be done with its value, whatever its type.
type setting interface {
	key() Key
	// fallback is the default as text, "" where Load works it out.
	fallback() string
	// parse checks text and stores its value in c.
	parse(c *Config, text string) error
	// override checks the value that code has and stores it in c. It reports whether code has one.
	override(c *Config, code Config) (bool, error)
	// locate ties the chosen value in c to this machine: see kind.
	locate(c *Config, dir string) error
	// text is c's value as it would be written in a file.
	text(c Config) string
}

// row is a setting whose value is a T.
type row[T any] struct {
	name    string
	value   func(*Config) *T
	kind    kind[T]
	initial string // the default as text
	unset   string // the default in words, where initial is ""
	meaning string
}

func (r row[T]) key() Key {
	shown := r.initial
	if shown == "" {
		shown = r.unset
	}
	return Key{
		Name:    r.name,
		Env:     envPrefix + strings.ToUpper(r.name),
		Field:   fieldName(r.name),
		Type:    r.kind.name,
		Allowed: r.kind.allowed(),
		Default: shown,
		Meaning: r.meaning,
	}
}

func (r row[T]) fallback() string { return r.initial }

func (r row[T]) parse(c *Config, text string) error {
	value, err := r.kind.parse(text)
	if err != nil {
		return err
	}
	return r.store(c, value)
}

func (r row[T]) override(c *Config, code Config) (bool, error) {
	value := *r.value(&code)
	if isZero(value) {
		return false, nil
	}
	return true, r.store(c, value)
}

func (r row[T]) store(c *Config, value T) error {
	value, err := r.kind.check(value)
	if err != nil {
		return err
	}
	*r.value(c) = value
	return nil
}

func (r row[T]) locate(c *Config, dir string) error {
	value := r.value(c)
	if r.kind.locate == nil || isZero(*value) {
		return nil
	}
	located, err := r.kind.locate(*value, dir)
	if err != nil {
		return err
	}
	*value = located
	return nil
}

func (r row[T]) text(c Config) string { return r.kind.format(*r.value(&c)) }

// isZero reports whether a field is not set. An empty list that is not nil is: it says that there shall be none.
func isZero[T any](value T) bool { return reflect.ValueOf(&value).Elem().IsZero() }

// fieldName makes HeartbeatTimeout of heartbeat_timeout.
func fieldName(key string) string {
	var field strings.Builder
	for word := range strings.SplitSeq(key, "_") {
		fmt.Fprintf(&field, "%s%s", strings.ToUpper(word[:1]), word[1:])
	}
	return field.String()
}
