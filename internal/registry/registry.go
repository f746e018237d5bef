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

	"github.com/fiber-go/fiber/meta"
)

// Tasks is a number of consecutive tasks of one function: decoded inputs, and the
// outputs of those that have run.
type Tasks interface {
	// Len is the number of inputs.
	Len() int
	// Run calls the function with input i, keeps its output, and returns its error.
	// A panic of the function passes through.
	Run(ctx context.Context, i int) error
	// Clear makes output i the zero value.
	Clear(i int)
	// Results encodes the outputs of inputs lo to hi-1. The output of an input that
	// failed or was not run is the zero value. The objects that the outputs name
	// live as long as named, which is nil if there are none.
	Results(lo, hi int) (frames [][]byte, named any, err error)
}

// Func is a registered function with its types erased.
type Func struct {
	Name      string
	In, Out   string // canonical text of the types, compared between builds
	Where     string // file:line of its registration
	Resources meta.Resources
	// Decode decodes the frames of a slice of inputs.
	Decode func(frames [][]byte) (Tasks, error)
}

// Signature is the function as text: name, input and output.
func (f *Func) Signature() string { return f.Name + "(" + f.In + ") " + f.Out }

var (
	mu    sync.RWMutex
	funcs = map[string]*Func{}
)

// Register adds f. It panics if the name is empty or taken.
func Register(f *Func) {
	if strings.TrimSpace(f.Name) == "" {
		panic(fmt.Sprintf("%s: fiber: a function is registered without a name", f.Where))
	}
	mu.Lock()
	defer mu.Unlock()
	if old, ok := funcs[f.Name]; ok {
		panic(fmt.Sprintf("%s: fiber: a function named %q is already registered at %s; give one of them another name",
			f.Where, f.Name, old.Where))
	}
	funcs[f.Name] = f
}

// Lookup finds a function by its name; ok says whether there is one.
func Lookup(name string) (*Func, bool) {
	mu.RLock()
	defer mu.RUnlock()
	f, ok := funcs[name]
	return f, ok
}

// LookupBytes is Lookup for a name inside a message; it does not allocate.
func LookupBytes(name []byte) (*Func, bool) {
	mu.RLock()
	defer mu.RUnlock()
	f, ok := funcs[string(name)]
	return f, ok
}

// Table lists the signatures of everything registered, sorted.
func Table() []string {
	mu.RLock()
	defer mu.RUnlock()
	table := make([]string, 0, len(funcs))
	for _, f := range funcs {
		table = append(table, f.Signature())
	}
	for _, e := range entries {
		table = append(table, e.signature)
	}
	sort.Strings(table)
	return table
}

// Hash is a digest of Table.
func Hash() string {
	sum := sha256.Sum256([]byte(strings.Join(Table(), "\n")))
	return hex.EncodeToString(sum[:16])
}
