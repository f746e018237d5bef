package vet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// A call is what the analyzers know of a function of Fiber's.
type call struct {
	name      string
	sends     []string // what has the type of each of its type parameters; "" if that does not travel
	registers bool     // it is called while package variables are initialised; other processes run its arguments
	begins    bool     // it does not return in a process that Fiber has started
	opens     string   // what it makes, which has to be closed
}

// calls are all that the analyzers know by name, together with closers.
var calls = map[string]call{
	"Main": {begins: true}, "Init": {begins: true}, "NewPool": {opens: "pool"}, "NewManager": {opens: "manager"},
	"Register":       {registers: true, sends: []string{argument, "its result"}},
	"RegisterType":   {registers: true, sends: []string{"", argument}},
	"RegisterMethod": {registers: true, sends: []string{"", argument, "its result"}},
	"RegisterRing":   {registers: true, sends: []string{argument}},
	"RegisterState":  {registers: true, sends: []string{argument, ""}},
	"RegisterError":  {registers: true}, "RegisterErrorType": {registers: true},
	"Share": {sends: []string{"the value"}}, "SaveState": {sends: []string{"the state"}}, "LoadState": {sends: []string{"the state"}},
	"Pipe": items, "PipeOneWay": items, "NewSimpleQueue": items, "NewQueue": items, "NewJoinableQueue": items,
	"NewList": values, "NewArray": values, "NewValue": values,
	"NewDict": {sends: []string{"its keys", "its values"}},
}

const argument = "its argument"

var items, values = call{sends: []string{"its items"}}, call{sends: []string{"its values"}}

// closers are the methods that end what was opened.
var closers = []string{"Close", "Shutdown", "Terminate"}

// ofFiber says whether a package is the library; go vet puts what it is a variant of behind its path.
func ofFiber(pkg *types.Package) bool {
	return pkg != nil && strings.HasPrefix(pkg.Path()+" ", "github.com/fiber-go/fiber ")
}

// callee returns the function that a node calls, nil unless it is known, and its full name.
func (p *pass) callee(n ast.Node) (f *types.Func, name string) {
	if c, ok := n.(*ast.CallExpr); ok {
		if f = typeutil.StaticCallee(p.TypesInfo, c); f != nil {
			f, name = f.Origin(), f.FullName()
		}
	}
	return f, name
}

// known returns what is known of the function that a node calls.
func (p *pass) known(n ast.Node) (c call) {
	if f, _ := p.callee(n); f != nil && ofFiber(f.Pkg()) && f.Signature().Recv() == nil {
		c = calls[f.Name()]
		c.name = "fiber." + f.Name()
	}
	return c
}
