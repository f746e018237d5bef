package vet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
)

// Before reports what is printed, written, started or served before main or TestMain has Fiber begin: each process would do it.
var Before = analyzer("before", "report effects before fiber.Main or fiber.Init", func(p *pass) {
	e := &effects{pass: p, seen: map[ast.Node]bool{}}
	p.starts(func(with string, before []ast.Node, _ *ast.BlockStmt) {
		e.with = with
		for _, n := range before {
			e.of(n)
		}
	})
})

// These match the full names of functions that have an effect, and of those that have one if they write to stdout or stderr.
var (
	effect = regexp.MustCompile(`^(print(ln)?|fmt\.Print(f|ln)?|log\.Print(f|ln)?|log/slog\.(Info|Warn|Error)(Context)?|` +
		`os\.(Create|CreateTemp|Link|Mkdir|MkdirAll|MkdirTemp|Open|OpenFile|Remove|RemoveAll|Rename|Symlink|Truncate|WriteFile)|` +
		`net\.(Dial|Listen)\w*|net/http\.(Get|Head|ListenAndServe|ListenAndServeTLS|Post|PostForm|Serve|ServeTLS)|` +
		`\(\*net/http\.Client\)\.(Do|Get|Head|Post|PostForm)|\(\*net/http\.Server\)\.(ListenAndServe|Serve)(TLS)?|` +
		`\(\*os/exec\.Cmd\)\.(CombinedOutput|Output|Run|Start))$`)
	prints = regexp.MustCompile(`^(fmt\.Fprint(f|ln)?|\(\*os\.File\)\.Write(String)?) os\.Std(out|err)$`)
)

type effects struct {
	*pass
	with string
	seen map[ast.Node]bool
}

// of reports the effects of a node, and of the package's functions that it calls. What has a condition is left alone: it may be
// there to tell one process from another, or the process may end with it.
func (e *effects) of(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil || e.seen[n] {
			return false
		}
		e.seen[n] = true
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt, *ast.CaseClause, *ast.CommClause:
			return false
		case *ast.IfStmt:
			e.seen[n.Body], e.seen[n.Else] = true, true
		case *ast.GoStmt:
			e.report(n.Pos(), "a goroutine before %s: every process of the program starts it", e.with)
			return false
		case *ast.CallExpr:
			f, name := e.callee(n)
			to := ""
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && f != nil && f.Signature().Recv() != nil {
				to = types.ExprString(method.X)
			} else if len(n.Args) > 0 {
				to = types.ExprString(n.Args[0])
			}
			if f == nil && e.TypesInfo.Types[n.Fun].IsBuiltin() {
				name = types.ExprString(n.Fun)
			}
			if effect.MatchString(name) || prints.MatchString(name+" "+to) {
				e.report(n.Pos(), "%s before %s: every process of the program does it", name, e.with)
			}
			returns := func(n ast.Node) bool { _, ok := n.(*ast.ReturnStmt); return ok }
			if body := e.bodies[f]; body != nil {
				for _, stmt := range body.List {
					e.of(stmt)
					if slices.ContainsFunc(slices.Collect(ast.Preorder(stmt)), returns) {
						break // the rest has a condition
					}
				}
			}
		}
		return true
	})
}
