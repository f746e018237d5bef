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
// value keeps does not travel, and is set in the values of an answer.
func TestPack(t *testing.T) {
	t.Parallel()
	long := make([]byte, 1<<17)
	v := everything{Yes: true, N: 3, Large: 1 << 63, Text: "text", First: Value{First: []byte("one"), Keep: t},
		Others: []Value{{First: []byte("two"), More: [][]byte{long}}, {First: []byte("three"), Refs: []Ref{{Endpoint: "e", Object: 7}}}}}
	v.Nested.B = 5
	packed := pack(&v)
	require.Len(t, packed.frames, 2)
	args, frame := packed.frames[0], packed.frames[1]
	require.Same(t, &long[0], &frame[0])
	v.First.Keep = nil
	got, err := opened[everything](packed)
	require.NoError(t, err)
	require.Equal(t, v, got)
	others := got.Others
	eachValue(reflect.ValueOf(&got).Elem(), func(v *Value) { v.Keep = 1 })
	require.Nil(t, others[0].Keep)
	require.Equal(t, []any{1, 1, 1}, []any{got.First.Keep, got.Others[0].Keep, got.Others[1].Keep})

	wrong := [][][]byte{{append(args, 0), frame}, {args}, {args, frame, frame}, {}, nil}
	for n := range args {
		wrong = append(wrong, [][]byte{args[:n], frame})
	}
	for i, frames := range wrong {
		_, err := opened[everything](said{frames: frames, plain: new(None)})
		require.Error(t, err, i)
	}
}

func BenchmarkPack(b *testing.B) {
	type delivery struct {
		ID    uint64
		Items []Value
	}
	item := []Value{{First: make([]byte, 100)}}
	for b.Loop() {
		if _, err := opened[delivery](pack(&delivery{12, item})); err != nil {
			b.Fatal(err)
		}
	}
}

// A name in a request is encoded as it is anywhere else.
func TestNamesHaveOneEncoding(t *testing.T) {
	t.Parallel()
	ref := Ref{Endpoint: "tls:10.0.0.7:4711@/2", Object: 7, Process: "Manager-1", PID: 12}
	packed := pack(&Value{Refs: []Ref{ref}})
	require.Contains(t, string(packed.frames[0]), string(ref.Append(nil)))
	v, err := opened[Value](packed)
	require.NoError(t, err)
	require.Equal(t, []Ref{ref}, v.Refs)
	require.Error(t, new(Ref).UnmarshalBinary(append(ref.Append(nil), 0)))
}
