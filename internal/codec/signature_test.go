package codec_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fiber-go/fiber/internal/codec"
)

func TestSignature(t *testing.T) {
	t.Parallel()
	const here = "github.com/fiber-go/fiber/internal/codec_test."
	for _, test := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[int](), "int"},
		{reflect.TypeFor[any](), "any"},
		{reflect.TypeFor[[]map[string]*[3]float64](), "[]map[string]*[3]float64"},
		{reflect.TypeFor[Vec](), here + "Vec=[]float64"},
		{reflect.TypeFor[Level](), here + "Level=int32"},
		{reflect.TypeFor[Text](), here + "Text(MarshalText)"},
		{reflect.TypeFor[*Custom](), "*" + here + "Custom(EncodeMsgpack)"},
		{reflect.TypeFor[Node](), here + "Node=struct{Value int; Next *" + here + "Node; More []" + here + "Node; By map[string]*" + here + "Node}"},
		{reflect.TypeFor[Tagged](), here + "Tagged=struct{a int; b []int; C *int}"},
		{reflect.TypeFor[Embeds](), here + "Embeds=struct{Base " + here + "Base=struct{ID int; Kind " + here + "Label=string}; Inner *" + here + "Inner=struct{Name string; Vec " + here +
			"Vec=[]float64}; hidden " + here + "hidden=struct{Shown int}; Extra int}"},
		{reflect.TypeFor[Box[Pair]](), here + "Box[" + here + "Pair]=struct{Value " + here + "Pair=struct{X float64; Y float64}}"},
	} {
		got, err := codec.Signature(test.t)
		assert.NoError(t, err)
		assert.Equal(t, test.want, got)
	}
}
