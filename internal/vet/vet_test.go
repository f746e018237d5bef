package vet

import (
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/vet/testdata/kinds"
)

// Each analyzer reports what testdata says that it reports, and nothing else in any of it. What travels according to kinds
// is what the codec sends: the two say the same of every kind. The functions that the analyzers know by name are there.
func TestAnalyzers(t *testing.T) {
	t.Setenv("GOFLAGS", "-tags=fiber_nodocker,fiber_nokubernetes") // less to load
	var all types.Object
	suite := &analysis.Analyzer{Name: "all", Doc: "all of them", Run: func(p *analysis.Pass) (any, error) {
		if p.Pkg.Name() == "kinds" {
			all = p.Pkg.Scope().Lookup("Kinds")
			fiber := p.Pkg.Imports()[slices.IndexFunc(p.Pkg.Imports(), ofFiber)]
			assert.Subset(t, fiber.Scope().Names(), slices.Collect(maps.Keys(calls)))
			for _, name := range fiber.Scope().Names() {
				assert.True(t, !strings.HasPrefix(name, "Register") || calls[name].registers, name)
			}
		}
		for _, a := range Analyzers {
			one := *p
			one.Analyzer = a
			if _, err := a.Run(&one); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	const cases = "./internal/vet/testdata/"
	analysistest.Run(t, "../..", suite, cases+"kinds", cases+"travels", cases+"globals", cases+"globals/flags", cases+"register",
		cases+"before", cases+"before/tests", cases+"unclosed")
	require.NotNil(t, all)
	for i, f := range fieldsOf(all.Type()) {
		v := traveller{seen: map[string]bool{}}
		v.visit("", nil, f.Type())
		vetted := ""
		if len(v.found) > 0 {
			vetted = v.found[0].text
		}
		assert.Equal(t, fromCodec(reflect.TypeFor[kinds.Kinds]().Field(i).Type), vetted, f.Name())
	}
}

// fromCodec returns the error of sending a value that is nowhere zero, or "".
func fromCodec(t reflect.Type) string {
	_, err := codec.Signature(t)
	if err == nil && !strings.Contains(t.String(), "fiber.") { // they need a run to travel
		v := reflect.New(t).Elem()
		fill(v, 3)
		_, err = codec.Marshal(v.Interface())
	}
	if err == nil {
		return ""
	}
	return strings.Replace(err.Error(), "element 0: ", "[].", 1)
}

// fill sets all that is in a value, to a number of levels.
func fill(v reflect.Value, levels int) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // it may not be exported
	if levels == 0 || strings.HasPrefix(v.Type().PkgPath(), "sync") || v.Type().PkgPath() == "time" {
		return
	}
	switch v.Kind() {
	case reflect.Int:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), levels-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), levels-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		x := reflect.New(v.Type().Elem()).Elem()
		fill(x, levels-1)
		v.SetMapIndex(reflect.Zero(v.Type().Key()), x)
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), levels)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), levels)
		}
	}
}
