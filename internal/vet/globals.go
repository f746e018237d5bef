package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// Globals reports package variables that a registered function reads, and that other processes have as they were initialised:
// only the function that fiber.Main calls sets them, or parses the flags that do.
var Globals = analyzer("globals", "report package variables that only the root sets and a registered function reads", func(p *pass) {
	set, elsewhere := map[*types.Var]token.Pos{}, p.elsewhere()
	forget := func(v *types.Var, _ token.Pos) { delete(set, v) }
	p.starts(func(_ string, before []ast.Node, body *ast.BlockStmt) {
		p.written(p.reach([]ast.Node{body}), false, func(v *types.Var, at token.Pos) { set[v] = at })
		p.written(p.reach(before), false, forget)
	})
	p.written(elsewhere, true, forget)
	for _, n := range elsewhere {
		for n := range ast.Preorder(n) {
			id, _ := n.(*ast.Ident)
			if v, _ := p.TypesInfo.Uses[id].(*types.Var); set[v].IsValid() {
				at := p.Fset.Position(set[v])
				p.report(n.Pos(), "%s is set by the root alone, at %s:%d, and read in another process: pass it as an argument",
					v.Name(), filepath.Base(at.Filename), at.Line)
				delete(set, v)
			}
		}
	}
})

// written calls do with the package variables that are set in the nodes and, with addresses, with those whose address is taken:
// they may be set through it.
func (p *pass) written(in []ast.Node, addresses bool, do func(v *types.Var, at token.Pos)) {
	for _, n := range in {
		for n := range ast.Preorder(n) {
			var to []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				to = n.Lhs
			case *ast.IncDecStmt:
				to = []ast.Expr{n.X}
			case *ast.UnaryExpr:
				if addresses && n.Op == token.AND {
					to = []ast.Expr{n.X}
				}
			case *ast.CallExpr:
				if _, name := p.callee(n); name == "flag.Parse" {
					to = p.flags()
				}
			}
			for _, x := range to {
				if v := p.global(x); v != nil {
					do(v, n.Pos())
				}
			}
		}
	}
}

// global returns the package variable that an expression is, or is a part of, or nil.
func (p *pass) global(x ast.Expr) *types.Var {
	for n := range ast.Preorder(x) {
		if id, ok := n.(*ast.Ident); ok { // the first one: x, in *x[i].f
			if v, _ := p.TypesInfo.ObjectOf(id).(*types.Var); v != nil && v.Kind() == types.PackageVar && v.Pkg() == p.Pkg {
				return v
			}
			break
		}
	}
	return nil
}

// flags returns the variables that flags are bound to.
func (p *pass) flags() (all []ast.Expr) {
	for n := range ast.Preorder(p.whole) {
		if _, name := p.callee(n); strings.HasPrefix(name, "flag.") && strings.HasSuffix(name, "Var") {
			all = append(all, n.(*ast.CallExpr).Args[0])
		}
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if _, name := p.callee(spec.Values[0]); strings.HasPrefix(name, "flag.") {
				all = append(all, spec.Names[0])
			}
		}
	}
	return all
}
