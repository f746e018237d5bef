package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"
)

// setting is a field of Config with what its tags say.
type setting struct {
	kind
	field   reflect.StructField
	key     string // as in .fiberconfig: heartbeat_timeout
	env     string // FIBER_HEARTBEAT_TIMEOUT
	initial string // the default as text; "" if Load works it out
}

// settings returns the fields of Config, in order.
var settings = sync.OnceValue(func() []setting {
	var all []setting
	for f := range reflect.TypeFor[Config]().Fields() {
		s := setting{field: f, key: f.Tag.Get("key"), initial: f.Tag.Get("default")}
		if s.key == "" { // only code can set it
			continue
		}
		s.env = envPrefix + strings.ToUpper(s.key)
		if words := f.Tag.Get("words"); s.key == "backend" {
			s.kind = backends()
		} else if words != "" {
			s.kind = oneOf(strings.Fields(words))
		} else {
			s.kind = kinds[cmp.Or(f.Tag.Get("kind"), f.Type.Name())]
		}
		all = append(all, s)
	}
	return all
})

// of returns the value of s in c.
func (s setting) of(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.field.Index)
}

func isKey(name string) bool {
	return slices.Contains(keys(), name)
}

// keys returns the keys of all settings, Fiber's own and those of plugins.
func keys() (all []string) {
	for _, s := range settings() {
		all = append(all, s.key)
	}
	for _, s := range plugged() {
		all = append(all, s.Key)
	}
	return all
}

// suggestion returns the question whether name, an unknown key, is misspelt, or "" if no key is similar.
func suggestion(name, prefix string) string {
	// With half of its letters changed, any short name is similar to any other:
	// port is not a misspelt host.
	best, least := "", min(max(2, len(name)/3), (len(name)-1)/2)+1
	for _, key := range keys() {
		if d := levenshtein.ComputeDistance(name, key); d < least {
			best, least = key, d
		}
	}
	switch {
	case best == "":
		return ""
	case prefix != "":
		best = prefix + strings.ToUpper(best)
	}
	return "; did you mean " + best + "?"
}
