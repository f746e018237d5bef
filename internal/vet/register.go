package vet

import (
	"go/ast"
	"slices"
	"strings"
)

// Register reports what is registered elsewhere than in the value of a package variable, in an init function, or in a function
// that one of these mentions: other processes would not know it.
var Register = analyzer("register", "report what is registered elsewhere than in a package variable", func(p *pass) {
	early := p.reach(p.initializers())
	for _, stmt := range p.whole.List {
		d, function := stmt.(*ast.DeclStmt).Decl.(*ast.FuncDecl)
		if !function || slices.Contains(early, ast.Node(stmt)) || slices.Contains(early, ast.Node(d.Body)) {
			continue
		}
		// Other packages may call it in their variables.
		open := d.Name.IsExported() && p.Pkg.Name() != "main" && !strings.HasSuffix(p.Fset.File(d.Pos()).Name(), "_test.go")
		for n := range ast.Preorder(d) {
			if k := p.known(n); k.registers && !open {
				p.report(n.Pos(), "%s outside of a package variable: other processes do not know what is registered here", k.name)
			}
		}
	}
})
