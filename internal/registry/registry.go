// Package registry maps names to what a program has registered, functions above
// all. Code never travels between processes: a task names its function, and both
// ends look the name up in the same table, which the handshake compares.
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/meta"
)

// Tasks is a number of consecutive tasks of one function: decoded inputs, and the
// outputs of those that have run.
type Tasks interface {
	// Len is the number of inputs.
	Len() int
	// Run calls the function with input i, keeps its output, and returns its error.
	// An input that could not be decoded fails instead. A panic of the function
	// passes through.
	Run(ctx context.Context, i int) error
	// Clear makes output i the zero value.
	Clear(i int)
	// Results encodes the outputs of inputs lo to hi-1. The output of an input that
	// failed or was not run is the zero value. Outputs that cannot be encoded are in
	// failed, in their order, each with its index. The objects that the outputs name
	// live as long as named, which is nil if there are none.
	Results(ctx context.Context, lo, hi int) (frames [][]byte, named any, failed []*codec.Error, err error)
}

// Func is a registered function with its types erased.
type Func struct {
	Name      string
	Resources meta.Resources
	// Decode decodes the frames of a slice of inputs, the first of which has index
	// lo in its call, -1 if it is a single value.
	Decode func(frames [][]byte, lo int) (Tasks, error)
}

// Kind separates the names of different things.
type Kind string

// The kinds.
const (
	Function Kind = "function" // a *Func
	Type     Kind = "type"     // a type of managed objects
	Method   Kind = "method"   // a method of such a type
	Ring     Kind = "ring"     // the function that the ranks of a ring run
	State    Kind = "state"    // a *Func that opens the state of a worker
)

type key struct {
	kind Kind
	name string
}

// entry is a registered thing.
type entry struct {
	signature string // with its name; compared between builds
	where     string // file:line of its registration
	value     any
	late      bool // added after Seal
}

var (
	mu      sync.RWMutex
	entries = map[key]entry{}
	sealed  bool
)

// Seal says that the other processes of the run know what is registered by now.
// What is added later is known to this process alone: it is no part of the table.
func Seal() {
	mu.Lock()
	defer mu.Unlock()
	sealed = true
}

// Add registers value under a name of a kind. It panics if the name is empty or
// taken. where is the file:line of the registration, for errors. The signature,
// the value's types as text, becomes part of the table, unless it is late.
func Add(kind Kind, name, signature, where string, value any) (late bool) {
	if strings.TrimSpace(name) == "" {
		panic(fmt.Sprintf("%s: fiber: a %s is registered without a name", where, kind))
	}
	mu.Lock()
	defer mu.Unlock()
	if old, ok := entries[key{kind, name}]; ok {
		panic(fmt.Sprintf("%s: fiber: a %s named %q is already registered at %s; give one of them another name",
			where, kind, name, old.where))
	}
	text := name + signature
	if kind != Function {
		text = string(kind) + " " + text
	}
	entries[key{kind, name}] = entry{text, where, value, sealed}
	return sealed
}

// Find returns the value that is registered under a name, nil if there is none.
func Find(kind Kind, name string) any {
	mu.RLock()
	defer mu.RUnlock()
	return entries[key{kind, name}].value
}

// Table lists the signatures of everything registered in time, sorted.
func Table() []string {
	mu.RLock()
	defer mu.RUnlock()
	table := make([]string, 0, len(entries))
	for _, e := range entries {
		if !e.late {
			table = append(table, e.signature)
		}
	}
	sort.Strings(table)
	return table
}

// Hash is a digest of Table.
func Hash() string {
	sum := sha256.Sum256([]byte(strings.Join(Table(), "\n")))
	return hex.EncodeToString(sum[:16])
}
