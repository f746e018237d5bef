package object_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/wire"
)

var values = []object.Value{
	{Frames: [][]byte{[]byte("one")}},
	{Frames: [][]byte{nil, bytes.Repeat([]byte{1}, 100), nil}},
	{Frames: [][]byte{[]byte("three"), []byte("more")}, Refs: []object.Ref{{Endpoint: "unix:/x", Object: 7, Process: "Process-1"}, {}}},
}

// Values arrive as they were sent, one at a time and several together.
func TestPackValues(t *testing.T) {
	t.Parallel()
	for n := 1; n <= len(values); n++ {
		args, frames := object.PackValues([]byte("before"), values[:n]...)
		in := wire.Reader{B: append(args, "behind"...)[len("before"):]}
		got, err := object.UnpackValues(&in, frames)
		require.NoError(t, err)
		require.Equal(t, "behind", string(in.B))
		require.Len(t, got, n)
		for i, v := range got {
			require.Equal(t, values[i].Refs, v.Refs)
			require.Equal(t, bytes.Join(values[i].Frames, []byte("|")), bytes.Join(v.Frames, []byte("|")))
		}
	}
}

// A message has room for few frames, and an object may hold many values.
func TestPackManyFrames(t *testing.T) {
	t.Parallel()
	var many []object.Value
	for i := range object.MaxFrames {
		many = append(many, object.Value{Frames: [][]byte{{1}, {byte(i), 2}, {3}}})
	}
	args, frames := object.PackValues(nil, many...)
	require.Len(t, frames, 1)
	in := wire.Reader{B: args}
	got, err := object.UnpackValues(&in, frames)
	require.NoError(t, err)
	require.Equal(t, many, got)
}

// As many values go together as fit a message, and always at least one.
func TestFitting(t *testing.T) {
	t.Parallel()
	small := object.Value{Frames: [][]byte{make([]byte, 10)}}
	large := object.Value{Frames: [][]byte{make([]byte, object.MaxBytes)}}
	many := object.Value{Frames: make([][]byte, object.MaxFrames/2+2)}
	require.Equal(t, 3, object.Fitting([]object.Value{small, small, small}))
	require.Equal(t, 1, object.Fitting([]object.Value{large, small}))
	require.Equal(t, 2, object.Fitting([]object.Value{small, small, large}))
	require.Equal(t, 1, object.Fitting([]object.Value{many, many}))
	require.Equal(t, 0, object.Fitting(nil))
}

// Whatever comes is either understood or refused as malformed.
func FuzzUnpackValues(f *testing.F) {
	args, frames := object.PackValues(nil, values...)
	f.Add(args, frames[0], len(frames))
	args, frames = object.PackValues(nil, values[2])
	f.Add(args, frames[0], len(frames))
	f.Fuzz(func(t *testing.T, args, first []byte, count int) {
		if count < 0 || count > 1000 {
			return
		}
		frames := make([][]byte, count)
		if count > 0 {
			frames[0] = first
		}
		got, err := object.UnpackValues(&wire.Reader{B: args}, frames)
		if err != nil {
			require.True(t, errors.Is(err, wire.ErrMalformed))
			return
		}
		if len(got) == 0 {
			return
		}
		again, packed := object.PackValues(nil, got...)
		same, err := object.UnpackValues(&wire.Reader{B: again}, packed)
		require.NoError(t, err)
		require.Equal(t, got, same)
	})
}
