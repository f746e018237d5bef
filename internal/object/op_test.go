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
	args, frames := pack(v)
	require.Len(t, frames, 1)
	require.Same(t, &long[0], &frames[0][0])
	v.First.Keep = nil
	var got everything
	require.NoError(t, unpack(args, frames, &got))
	require.Equal(t, v, got)
	keepWith(1, reflect.ValueOf(&got).Elem())
	require.Equal(t, []any{1, 1, 1}, []any{got.First.Keep, got.Others[0].Keep, got.Others[1].Keep})

	for n := range args {
		require.Error(t, unpack(args[:n], frames, &got), "%d bytes", n)
	}
	require.Error(t, unpack(append(args, 0), frames, &got))
	require.Error(t, unpack(args, nil, &got))
	require.Error(t, unpack(args, append(frames, long), &got))
	require.Error(t, unpack(nil, nil, new(None)))
}

func BenchmarkPack(b *testing.B) {
	type delivery struct {
		ID    uint64
		Items []Value
	}
	item := []Value{{First: make([]byte, 100)}}
	for b.Loop() {
		args, frames := pack(delivery{12, item})
		var d delivery
		if err := unpack(args, frames, &d); err != nil {
			b.Fatal(err)
		}
	}
}

// A name in a request is encoded as it is anywhere else.
func TestNamesHaveOneEncoding(t *testing.T) {
	t.Parallel()
	ref := Ref{Endpoint: "tls:10.0.0.7:4711@/2", Object: 7, Process: "Manager-1", PID: 12}
	args, _ := pack(Value{Refs: []Ref{ref}})
	require.Contains(t, string(args), string(ref.Append(nil)))
	var v Value
	require.NoError(t, unpack(args, nil, &v))
	require.Equal(t, []Ref{ref}, v.Refs)
	require.Error(t, new(Ref).UnmarshalBinary(append(ref.Append(nil), 0)))
}
