package fiber_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program in the README is examples/pi without its flags, and works in a
// module of its own.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	require.Len(t, blocks, 1, "programs in README.md")
	program := blocks[0][1]
	require.Equal(t, formatted(t, program), program, "gofmt")
	require.Equal(t, declaration(t, "main.go", program, "inside"), declaration(t, "examples/pi/main.go", nil, "inside"))

	dir := module(t, map[string]string{"main.go": program})
	out := command(t, dir, "go", "run", ".")
	require.Regexp(t, `^Pi is roughly 3\.1[34]\d*\n$`, out)
}

// The snippets of doc.go are one program.
func TestTutorial(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	var main string
	var snippets strings.Builder
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		code, ok := block.(*comment.Code)
		if !ok {
			continue
		}
		require.Equal(t, strings.TrimSpace(formatted(t, code.Text)), strings.TrimSpace(code.Text), "gofmt")
		if strings.HasPrefix(code.Text, "package main") {
			main = code.Text
			continue
		}
		snippets.WriteString(code.Text + "\n")
	}
	rest := "package main\n\nimport (\n"
	for _, path := range []string{"context", "errors", "fmt", "io", "iter", "os", "slices", "testing", "time", root, root + "/event", root + "/meta"} {
		if strings.Contains(snippets.String(), path[strings.LastIndexByte(path, '/')+1:]+".") {
			rest += "\t\"" + path + "\"\n"
		}
	}
	dir := module(t, map[string]string{"main.go": main, "rest.go": rest + ")\n\n" + snippets.String()})
	command(t, dir, "go", "vet", ".")
	require.Equal(t, "[1 4 9]\n", command(t, dir, "go", "run", "."))
}

// Each package says what it is, and docs/design.md has a line for it; the
// examples have one together, and the tests.
func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	design := read(t, "docs/design.md")
	for dir, files := range packages(t) {
		text := ""
		for _, f := range files {
			if f.Doc != nil {
				require.Empty(t, text, "two files have a comment of package %s", dir)
				text = f.Doc.Text()
			}
		}
		name := files[0].Name.Name
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + filepath.Base(dir) + " "
		}
		require.True(t, strings.HasPrefix(text, want), "the comment of package %s begins with %q, not with %q", dir, text, want)
		folder, _, _ := strings.Cut(filepath.ToSlash(dir), "/")
		if folder != "examples" && folder != "test" {
			folder = filepath.ToSlash(dir)
		}
		if folder != "." {
			require.Contains(t, design, "| `"+folder+"` |", "docs/design.md")
		}
	}
}

// What the documents name is there.
func TestDocumentsNameWhatIs(t *testing.T) {
	t.Parallel()
	exported := map[string]bool{}
	for _, file := range packages(t)["."] {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				exported[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						exported[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							exported[name.Name] = true
						}
					}
				}
			}
		}
	}
	qualified := regexp.MustCompile(`\bfiber\.([A-Z]\w*)`)
	linked := regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\]`)
	for _, file := range append(documents(t), "doc.go") {
		names := qualified.FindAllStringSubmatch(read(t, file), -1)
		if file == "doc.go" {
			names = append(names, linked.FindAllStringSubmatch(read(t, file), -1)...)
		}
		for _, name := range names {
			require.True(t, exported[name[1]], "%s names %s", file, name[0])
		}
	}
}

// The documentation shows each example as a whole program, with the declarations
// that it needs: these stand in the example's file.
func TestExamplesAreWholePrograms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("example*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, example := range doc.Examples(file) {
			require.NotNil(t, example.Play, "%s: Example%s uses what another file declares", name, example.Name)
		}
	}
}

// A link to a file leads to one.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for _, file := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(read(t, file), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(file), found[1]))
			require.NoError(t, err, "%s links to %s", file, found[1])
		}
	}
}

// Each dependency has a reason in docs/design.md, and what only tests, bars or the
// command need is not in the library.
func TestDependencies(t *testing.T) {
	t.Parallel()
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1)
	require.NotEmpty(t, direct)
	design := read(t, "docs/design.md")
	for _, module := range direct {
		require.Contains(t, design, "`"+module[1]+"`", "docs/design.md")
	}
	linked := command(t, ".", "go", "list", "-deps", ".", "./examples/...")
	for _, module := range []string{"github.com/stretchr/testify", "go.uber.org/goleak", "golang.org/x/tools", "github.com/mattn/go-runewidth", "github.com/chromedp",
		"github.com/prometheus", "fiber/internal/bars\n", "fiber/internal/report", "net/http/pprof\n", "testing\n"} {
		require.NotContains(t, linked, module, "it is in the library")
	}
	require.Contains(t, command(t, ".", "go", "list", "-deps", "./metrics"), "github.com/prometheus")
	require.NotContains(t, command(t, ".", "go", "list", "-deps", "./dashboard", "./progress", "./cmd/fiber"), "github.com/prometheus")
}

const root = "github.com/fiber-go/fiber"

// module makes a module that uses this one, and gives its directory.
func module(t *testing.T, files map[string]string) (dir string) {
	dir = t.TempDir()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	files["go.mod"] = "module example\n\ngo 1.26\n\nrequire " + root + " v0.0.0\n\nreplace " + root + " => " + here + "\n"
	files["go.sum"] = read(t, "go.sum")
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// command runs a command of go's that finds all it needs on this machine.
func command(t *testing.T, dir, name string, args ...string) (stdout string) {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if dir != "." {
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s%s", args, out, &errs)
	return string(out)
}

// packages parses the files of every package, without its tests.
func packages(t *testing.T) map[string][]*ast.File {
	all := map[string][]*ast.File{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err == nil {
			all[filepath.Dir(path)] = append(all[filepath.Dir(path)], file)
		}
		return err
	}))
	return all
}

// receiver is what stands before a method's name: its type and a point.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name + "."
		}
	}
}

// documents are the Markdown files.
func documents(t *testing.T) []string {
	files, err := filepath.Glob("*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	return slices.Concat(files, more)
}

func read(t *testing.T, file string) string {
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

func formatted(t *testing.T, code string) string {
	b, err := format.Source([]byte(code))
	require.NoError(t, err, code)
	return string(b)
}

// declaration is the text of a package variable.
func declaration(t *testing.T, file string, source any, name string) string {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, 0)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR || gen.Specs[0].(*ast.ValueSpec).Names[0].Name != name {
			continue
		}
		var text bytes.Buffer
		require.NoError(t, format.Node(&text, fset, gen))
		return text.String()
	}
	require.Fail(t, "no variable "+name, file)
	return ""
}
