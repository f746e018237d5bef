// Package vet finds mistakes in programs that use Fiber which the compiler can't see, before the programs run.
//
// Each analyzer reports what it is sure of: what an interface, a function value or another package hides is left alone. A
// comment //fiber:ignore NAME REASON silences an analyzer for the statement or declaration that it belongs to.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzers are all of them.
var Analyzers = []*analysis.Analyzer{Travels, Globals, Register, Before, Unclosed}

// pass is one analyzer at work on one package.
type pass struct {
	*analysis.Pass
	whole  *ast.BlockStmt                 // all declarations of the package
	bodies map[*types.Func]*ast.BlockStmt // of its functions
}

func analyzer(name, doc string, run func(*pass)) *analysis.Analyzer {
	return &analysis.Analyzer{Name: name, Doc: doc, Run: func(a *analysis.Pass) (any, error) {
		p := &pass{Pass: a, whole: &ast.BlockStmt{}, bodies: map[*types.Func]*ast.BlockStmt{}}
		for _, file := range p.Files {
			for _, decl := range file.Decls {
				p.whole.List = append(p.whole.List, &ast.DeclStmt{Decl: decl})
				if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
					p.bodies[p.TypesInfo.Defs[d.Name].(*types.Func)] = d.Body
				}
			}
		}
		if ofFiber(a.Pkg) || slices.ContainsFunc(a.Pkg.Imports(), ofFiber) {
			run(p)
		}
		return nil, nil
	}}
}

// report reports a mistake, unless a comment says that it is meant.
func (p *pass) report(at token.Pos, format string, args ...any) {
	for _, file := range p.Files {
		for n, groups := range ast.NewCommentMap(p.Fset, file, file.Comments) {
			if n.Pos() <= at && at < n.End() && slices.ContainsFunc(groups, p.ignores) {
				return
			}
		}
	}
	p.Reportf(at, format, args...)
}

// ignores says whether a comment silences this analyzer.
func (p *pass) ignores(group *ast.CommentGroup) bool {
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//fiber:ignore "+p.Analyzer.Name+" ") })
}
