package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// Unclosed reports pools and managers that a function makes and neither closes nor hands on: they are not returned, stored, or an
// argument of a function other than Fiber's.
var Unclosed = analyzer("unclosed", "report pools and managers that nobody closes", func(p *pass) {
	var opened []*ast.AssignStmt
	handed := map[types.Object]bool{}
	ast.PreorderStack(p.whole, nil, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if p.known(n.Rhs[0]).opens != "" {
				opened = append(opened, n)
			}
		case *ast.ExprStmt:
			p.dropped(n.X)
		case *ast.Ident:
			handed[p.TypesInfo.Uses[n]] = handed[p.TypesInfo.Uses[n]] || !p.keeps(n, stack[len(stack)-1])
		}
		return true
	})
	for _, a := range opened {
		if types.ExprString(a.Lhs[0])+types.ExprString(a.Lhs[len(a.Lhs)-1]) == "__" {
			p.dropped(a.Rhs[0])
		}
		id, _ := a.Lhs[0].(*ast.Ident)
		v, _ := p.TypesInfo.ObjectOf(id).(*types.Var)
		if v != nil && v.Kind() == types.LocalVar && v.Name() != "_" && !handed[v] {
			p.report(a.Rhs[0].Pos(), "the %s is never closed: defer %s.Close()", p.known(a.Rhs[0]).opens, v.Name())
		}
	}
})

// dropped reports what is made and kept nowhere. Who keeps the error may only want that.
func (p *pass) dropped(made ast.Expr) {
	if what := p.known(made).opens; what != "" {
		p.report(made.Pos(), "the %s is never closed: nothing holds it", what)
	}
}

// keeps says whether a mention of a variable neither closes what it holds nor gives it to anyone else.
func (p *pass) keeps(id *ast.Ident, parent ast.Node) bool {
	switch parent := parent.(type) {
	case *ast.SelectorExpr:
		return !slices.Contains(closers, parent.Sel.Name)
	case *ast.BinaryExpr:
		return parent.Op == token.EQL || parent.Op == token.NEQ
	case *ast.AssignStmt:
		return slices.Contains(parent.Lhs, ast.Expr(id))
	case *ast.CallExpr: // Fiber's own functions only use it, unless they send it
		f, _ := p.callee(parent)
		i := slices.Index(parent.Args, ast.Expr(id))
		return f != nil && ofFiber(f.Pkg()) && 0 <= i && i < f.Signature().Params().Len() &&
			types.Identical(f.Signature().Params().At(i).Type(), p.TypesInfo.TypeOf(id))
	}
	return false
}
