package object

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

type everything struct {
	Yes    bool
	N      int
	Large  uint64
	Text   string
	Nested struct{ A, B int }
	First  Value
	Others []Value
}

// Requests and answers arrive as they were sent, and nothing else does. What a
// value keeps does not travel, and is set in all values of an answer that names objects.
func TestPack(t *testing.T) {
	t.Parallel()
	long := make([]byte, 1<<17)
	v := everything{Yes: true, N: 3, Large: 1 << 63, Text: "text", First: Value{First: []byte("one")},
		Others: []Value{Encoded([][]byte{[]byte("two"), long}), Encoded([][]byte{[]byte("three")}, Ref{Endpoint: "e", Object: 7})}}
	v.Nested.B = 5
	packed := Pack(&v)
	require.Len(t, packed, 2)
	require.Same(t, &long[0], &packed[1][0])
	v.Others[1] = v.Others[1].Keeping(1)
	require.Equal(t, packed, Pack(&v))
	got, err := opened[everything](said{frames: packed})
	require.NoError(t, err)
	others := got.Others
	eachValue(reflect.ValueOf(&v).Elem(), func(v *Value) { *v = v.Keeping(1) })
	kept, err := unpacked[everything](answer{said: said{frames: packed}, keep: 1})
	require.NoError(t, err)
	require.Equal(t, v, kept)
	require.Nil(t, others[1].rest.keep)
	refused[everything](t, packed)
}

// So do values alone, which are packed by hand.
func TestPackValues(t *testing.T) {
	t.Parallel()
	long := make([]byte, 1<<17)
	vs := []Value{Encoded([][]byte{[]byte("one"), long, []byte("two")}), {}, {First: []byte{}},
		Encoded([][]byte{[]byte("three")}, Ref{Endpoint: "e", Object: 7, Process: "p", PID: 3})}
	packed := Pack(&vs)
	require.Len(t, packed, 2)
	require.Same(t, &long[0], &packed[1][0])
	got, err := opened[[]Value](said{frames: packed})
	require.NoError(t, err)
	require.Equal(t, vs, got)
	clear(packed[0])
	require.Equal(t, vs, got) // a value that is kept does not keep the others' memory
	refused[[]Value](t, Pack(&vs))
}

// refused checks that nothing but all of packed, which has two frames, is an X.
func refused[X any](t *testing.T, packed [][]byte) {
	args, frame := packed[0], packed[1]
	wrong := [][][]byte{{append(args, 0), frame}, {args}, {args, frame, frame}, {}, nil}
	for n := range args {
		wrong = append(wrong, [][]byte{args[:n], frame})
	}
	for i, frames := range wrong {
		_, err := opened[X](said{frames: frames, plain: new(None)})
		require.Error(t, err, i)
	}
}

func BenchmarkPack(b *testing.B) {
	items := make([]Value, 1000)
	for i := range items {
		items[i].First = make([]byte, 9)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := opened[[]Value](said{frames: Pack(&items)}); err != nil {
			b.Fatal(err)
		}
	}
}

// A name in a request is encoded as it is anywhere else.
func TestNamesHaveOneEncoding(t *testing.T) {
	t.Parallel()
	ref := Ref{Endpoint: "tls:10.0.0.7:4711@/2", Object: 7, Process: "Manager-1", PID: 12}
	packed := Pack(&Value{rest: &rest{refs: []Ref{ref}}})
	require.Contains(t, string(packed[0]), string(ref.Append(nil)))
	v, err := opened[Value](said{frames: packed})
	require.NoError(t, err)
	require.Equal(t, []Ref{ref}, v.Refs())
	require.Error(t, new(Ref).UnmarshalBinary(append(ref.Append(nil), 0)))
}
