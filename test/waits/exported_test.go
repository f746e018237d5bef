//go:build unix

package waits_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table has each exported function and method that takes a context, and
// nothing else.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	const path = "github.com/fiber-go/fiber"
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-tags", "fiber_nodocker,fiber_nokubernetes", "-f", "{{.Export}}", path)
	list.Stderr = os.Stderr
	file, err := list.Output()
	require.NoError(t, err)
	pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", func(string) (io.ReadCloser, error) {
		return os.Open(strings.TrimSpace(string(file)))
	}).Import(path)
	require.NoError(t, err)

	var exported, rows []string
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Func:
			if takesContext(o) {
				exported = append(exported, name)
			}
		case *types.TypeName:
			methods := types.NewMethodSet(types.NewPointer(o.Type()))
			if types.IsInterface(o.Type()) {
				methods = types.NewMethodSet(o.Type())
			}
			for m := range methods.Methods() {
				if m := m.Obj().(*types.Func); m.Exported() && takesContext(m) {
					exported = append(exported, name+"."+m.Name())
				}
			}
		}
	}
	exported = slices.DeleteFunc(exported, func(name string) bool { // which only look at it
		return slices.Contains([]string{"TaskFromContext", "TaskSeed", "State.Get"}, name)
	})
	for _, r := range table {
		rows = append(rows, r.name)
	}
	slices.Sort(rows)
	require.ElementsMatch(t, exported, slices.Compact(rows), "A is exported, B is in the table")
}

// takesContext says whether a function has a context among its parameters.
func takesContext(f *types.Func) bool {
	for p := range f.Signature().Params().Variables() {
		if types.TypeString(p.Type(), nil) == "context.Context" {
			return true
		}
	}
	return false
}
