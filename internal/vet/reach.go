package vet

import (
	"go/ast"
	"go/types"
	"slices"
)

// reach returns the nodes, the bodies of the package's functions that they mention, of those that these mention, and so on.
func (p *pass) reach(all []ast.Node) []ast.Node {
	for i := 0; i < len(all); i++ {
		for n := range ast.Preorder(all[i]) {
			id, _ := n.(*ast.Ident)
			if f, ok := p.TypesInfo.Uses[id].(*types.Func); ok {
				if body := p.bodies[f.Origin()]; body != nil && !slices.Contains(all, ast.Node(body)) {
					all = append(all, body)
				}
			}
		}
	}
	return all
}

// elsewhere returns what other processes run: the functions that the package registers, and what they reach.
func (p *pass) elsewhere() (all []ast.Node) {
	for n := range ast.Preorder(p.whole) {
		if p.known(n).registers {
			for _, x := range n.(*ast.CallExpr).Args {
				all = append(all, x)
			}
		}
	}
	return p.reach(all)
}

// initializers returns what runs before main: package variables, and the init functions.
func (p *pass) initializers() (all []ast.Node) {
	for _, stmt := range p.whole.List {
		if d, function := stmt.(*ast.DeclStmt).Decl.(*ast.FuncDecl); !function || d.Recv == nil && d.Name.Name == "init" {
			all = append(all, stmt)
		}
	}
	return all
}

// starts calls do for a main and a TestMain in which Fiber begins: with a function, after what every process does, initializers
// included.
func (p *pass) starts(do func(with string, before []ast.Node, body *ast.BlockStmt)) {
	for f, body := range p.bodies {
		if f.Signature().Recv() != nil || f.Name() != "TestMain" && (f.Name() != "main" || p.Pkg.Name() != "main") {
			continue
		}
		for n := range ast.Preorder(body) {
			if k := p.known(n); k.begins {
				before := p.initializers()
				for _, stmt := range body.List {
					if stmt.End() <= n.Pos() {
						before = append(before, stmt)
					}
				}
				do(k.name, before, body)
				break
			}
		}
	}
}
