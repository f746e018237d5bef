package registry

import (
	"fmt"
	"strings"
)

// Kind separates the names of things that are not functions.
type Kind string

// The kinds.
const (
	Type   Kind = "type"   // a type of managed objects
	Method Kind = "method" // a method of such a type
	Ring   Kind = "ring"   // the function that the ranks of a ring run
)

// entry is a registered thing.
type entry struct {
	signature string // compared between builds
	where     string // file:line of its registration
	value     any
}

var entries = map[string]entry{} // under mu, by kind and name

// Add registers value under a name of a kind. It panics if the name is empty or
// taken. where is the file:line of the registration, for errors. The signature,
// the value's types as text, becomes part of the table.
func Add(kind Kind, name, signature, where string, value any) {
	if strings.TrimSpace(name) == "" {
		panic(fmt.Sprintf("%s: fiber: a %s is registered without a name", where, kind))
	}
	key := string(kind) + " " + name
	mu.Lock()
	defer mu.Unlock()
	if old, ok := entries[key]; ok {
		panic(fmt.Sprintf("%s: fiber: a %s named %q is already registered at %s; give one of them another name",
			where, kind, name, old.where))
	}
	entries[key] = entry{key + signature, where, value}
}

// Find returns the value that is registered under a name, nil if there is none.
func Find(kind Kind, name string) any {
	mu.RLock()
	defer mu.RUnlock()
	return entries[string(kind)+" "+name].value
}
