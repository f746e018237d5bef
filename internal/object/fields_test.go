package object

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
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

// Requests and answers arrive as they were sent, and nothing else does.
func TestFields(t *testing.T) {
	t.Parallel()
	v := everything{Yes: true, N: 3, Large: 1 << 63, Text: "text", First: Value{Frames: [][]byte{[]byte("one")}},
		Others: []Value{{Frames: [][]byte{[]byte("two"), []byte("more")}}, {Frames: [][]byte{[]byte("three")}, Refs: []Ref{{Endpoint: "e", Object: 7}}}}}
	v.Nested.B = 5
	args, frames := pack(&v)
	var got everything
	require.NoError(t, unpack(args, frames, &got))
	require.Equal(t, v, got)

	for n := range args {
		require.ErrorIs(t, unpack(args[:n], frames, &got), wire.ErrMalformed, "%d bytes", n)
	}
	require.ErrorIs(t, unpack(append(args, 0), frames, &got), wire.ErrMalformed)
	require.ErrorIs(t, unpack(args, frames[:1], &got), wire.ErrMalformed)

	for _, n := range []int{0, 2} { // so many values for a single field
		args, frames := PackValues(nil, v.Others[:n]...)
		require.ErrorIs(t, unpack(args, frames, &got.First), wire.ErrMalformed)
	}
	require.NoError(t, unpack(nil, nil, new(None)))
	require.ErrorIs(t, unpack([]byte{1}, nil, new(None)), wire.ErrMalformed)
}

func BenchmarkFields(b *testing.B) {
	type delivery struct {
		ID    uint64
		Items []Value
	}
	item := []Value{{Frames: [][]byte{make([]byte, 100)}}}
	for b.Loop() {
		args, frames := pack(&delivery{12, item})
		var d delivery
		if err := unpack(args, frames, &d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFieldsOfANumber(b *testing.B) {
	for b.Loop() {
		n := uint64(12)
		args, frames := pack(&n)
		var m uint64
		if err := unpack(args, frames, &m); err != nil {
			b.Fatal(err)
		}
	}
}
