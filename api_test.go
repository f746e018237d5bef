package fiber_test

import (
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages that programs import, by their folders.
var publicPackages = []string{".", "backend", "dashboard", "event", "meta", "metrics", "progress", "transport"}

// What is exported has a comment, and names types of the standard library and of
// these packages alone: those of others are not in its documentation.
func TestExportedAPI(t *testing.T) {
	t.Parallel()
	public := map[string]bool{}
	for _, dir := range publicPackages {
		public[filepath.Join("github.com/fiber-go/fiber", dir)] = true
	}
	for _, dir := range publicPackages {
		path := filepath.Join("github.com/fiber-go/fiber", dir)
		list := exec.CommandContext(t.Context(), "go", "list", "-export", "-tags", "fiber_nodocker,fiber_nokubernetes", "-f", "{{.Export}}", path)
		list.Stderr = os.Stderr
		file, err := list.Output()
		require.NoError(t, err)
		pkg, err := importer.ForCompiler(token.NewFileSet(), "gc", func(string) (io.ReadCloser, error) {
			return os.Open(strings.TrimSpace(string(file)))
		}).Import(path)
		require.NoError(t, err)
		a := api{T: t, public: maps.Clone(public)}
		a.public["github.com/prometheus/client_golang/prometheus"] = dir == "metrics" // it is for that
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() {
				a.object(pkg.Name()+"."+name, o)
			}
		}
		commented(t, dir)
	}
}

// api goes through the types that a package's exported declarations name.
type api struct {
	*testing.T
	public map[string]bool
}

func (a api) object(where string, o types.Object) {
	name, ok := o.(*types.TypeName)
	if !ok {
		a.typ(where, o.Type())
		return
	}
	if name.IsAlias() {
		a.typ(where, o.Type())
		return
	}
	named := o.Type().(*types.Named)
	a.typ(where, named.Underlying())
	for m := range named.Methods() {
		if m.Exported() {
			a.typ(where+"."+m.Name(), m.Type())
		}
	}
	for p := range named.TypeParams().TypeParams() {
		a.typ(where, p.Constraint())
	}
}

// typ goes through a type that is named at where.
func (a api) typ(where string, t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		if pkg := t.Obj().Pkg(); pkg != nil && !a.public[pkg.Path()] && strings.Contains(strings.Split(pkg.Path(), "/")[0], ".") {
			a.Errorf("%s names %v, which is not of the API", where, t)
		} else if pkg != nil && a.public[pkg.Path()] && !t.Obj().Exported() {
			a.Errorf("%s names %v, which is not exported", where, t)
		}
		for arg := range t.TypeArgs().Types() {
			a.typ(where, arg)
		}
	case *types.Alias:
		a.typ(where, types.Unalias(t))
	case *types.Pointer:
		a.typ(where, t.Elem())
	case *types.Slice:
		a.typ(where, t.Elem())
	case *types.Array:
		a.typ(where, t.Elem())
	case *types.Chan:
		a.typ(where, t.Elem())
	case *types.Map:
		a.typ(where, t.Key())
		a.typ(where, t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			a.typ(where, v.Type())
		}
		for v := range t.Results().Variables() {
			a.typ(where, v.Type())
		}
		for p := range t.TypeParams().TypeParams() {
			a.typ(where, p.Constraint())
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				a.typ(where+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				a.typ(where+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			a.typ(where, e)
		}
	}
}

// commented requires that what the package in a folder exports has comments.
func commented(t *testing.T, dir string) {
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, f)
	}
	pkg, err := doc.NewFromFiles(fset, parsed, dir)
	require.NoError(t, err)
	need := func(text, what string) {
		if text == "" {
			t.Errorf("%s of %s has no comment", what, dir)
		}
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, spec := range v.Decl.Specs {
				need(v.Doc+spec.(*ast.ValueSpec).Doc.Text()+spec.(*ast.ValueSpec).Comment.Text(), spec.(*ast.ValueSpec).Names[0].Name)
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			need(f.Doc, f.Recv+" "+f.Name)
		}
	}
	need(pkg.Doc, "the package")
	values(pkg.Consts)
	values(pkg.Vars)
	funcs(pkg.Funcs)
	for _, typ := range pkg.Types {
		need(typ.Doc+typ.Decl.Specs[0].(*ast.TypeSpec).Doc.Text(), typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
		ast.Inspect(typ.Decl, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if len(f.Names) > 0 && f.Names[0].IsExported() {
						need(f.Doc.Text()+f.Comment.Text(), typ.Name+"."+f.Names[0].Name)
					}
				}
			}
			return true
		})
	}
}
