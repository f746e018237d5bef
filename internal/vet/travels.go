package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// Travels reports the types that Register and the constructors reject, and fields whose values would be lost. A field of this
// package that is not exported is lost only if something sets it; of an argument, elsewhere than in the registered function.
var Travels = analyzer("travels", "report types that cannot travel, and fields that would be lost", func(p *pass) {
	mentioned := map[bool]map[*types.Var]bool{true: p.mentioned(p.elsewhere()), false: p.mentioned(nil)}
	reported := map[token.Pos]bool{}
	for n := range ast.Preorder(p.whole) {
		id, _ := n.(*ast.Ident)
		f, ok := p.TypesInfo.Uses[id].(*types.Func)
		if !ok || !ofFiber(f.Pkg()) {
			continue
		}
		for i, what := range calls[f.Name()].sends {
			v := traveller{seen: map[string]bool{}}
			if what != "" {
				v.visit("", nil, p.TypesInfo.Instances[id].TypeArgs.At(i))
			}
			for _, b := range v.found {
				at, own := id.Pos(), b.field != nil && b.field.Pkg() == p.Pkg
				if own {
					at = b.field.Pos()
				}
				if !reported[at] && (!own || !b.lost || mentioned[what == argument][b.field.Origin()]) {
					reported[at] = own
					p.report(at, "fiber.%s: %s: %s", f.Name(), what, b.text)
				}
			}
		}
	}
})

// mentioned returns the variables and fields that the package mentions, except in some nodes.
func (p *pass) mentioned(except []ast.Node) map[*types.Var]bool {
	all := map[*types.Var]bool{}
	ast.Inspect(p.whole, func(n ast.Node) bool {
		id, _ := n.(*ast.Ident)
		if v, ok := p.TypesInfo.Uses[id].(*types.Var); ok {
			all[v.Origin()] = true
		}
		return !slices.Contains(except, n)
	})
	return all
}
