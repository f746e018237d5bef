package wire_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
)

var batches = []wire.Batch{
	{ID: 1, Call: 2, Lo: 3, Count: 4, Func: []byte("square"), Timeout: 5, Left: 6, Attempt: 7, Flags: wire.Announce | wire.Inline | wire.Begun},
	{ID: math.MaxUint64, Call: math.MaxUint64, Lo: 1 << 40, Count: 1 << 30, Func: []byte("日本"), Timeout: 1 << 60, Flags: wire.StopOnError},
	{Func: []byte{}},
}

var results = []wire.Results{
	{Batch: 1, From: 2, Count: 3, Started: -1, Ended: true, Nanos: 4},
	{Batch: math.MaxUint64, From: 1 << 40, Count: 1, Started: 7, Stuck: true, Nanos: 1 << 60},
	{Batch: 5, Count: 2, Started: -1, Errors: []wire.TaskError{
		{Index: 1, Err: wire.Error{Func: "f", Worker: "w", Message: "broken", Stack: "here", Panic: true, Matches: []string{"diverged"}, Details: []string{string([]byte{1})}}},
	}},
}

func TestBatch(t *testing.T) {
	t.Parallel()
	for _, g := range batches {
		frames := g.Pack([][]byte{{1}, {2}})
		require.Equal(t, [][]byte{{1}, {2}}, frames[1:])
		require.Equal(t, wire.KindBatch, wire.KindOf(frames))
		var got wire.Batch
		require.NoError(t, got.Unpack(frames))
		require.Equal(t, g, got)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for _, r := range results {
		frames, err := r.Pack([][]byte{{1}})
		require.NoError(t, err)
		require.Equal(t, [][]byte{{1}}, frames[1:])
		var got wire.Results
		require.NoError(t, got.Unpack(frames))
		require.Equal(t, r, got)
	}
}

func TestOtherMessages(t *testing.T) {
	t.Parallel()
	frames := wire.MustPack(wire.KindCancel, wire.Cancel{Call: 7, From: 9}, []byte("value"))
	require.Equal(t, wire.KindCancel, wire.KindOf(frames))
	var c wire.Cancel
	require.NoError(t, wire.Unpack(frames, &c))
	require.Equal(t, wire.Cancel{Call: 7, From: 9}, c)
	require.Equal(t, "cancel", wire.KindCancel.String())
	require.Equal(t, "kind 200", wire.Kind(200).String())
	_, err := wire.Pack(wire.KindDone, make(chan int))
	require.ErrorContains(t, err, "done")
}

// A part of a message is not taken for a whole one, nor a message of another kind
// for this one.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, frames := range [][][]byte{nil, {}, {nil}, {{}}, {{byte(wire.KindStop)}}, {{byte(wire.KindBatch)}}, {{byte(wire.KindResults)}}} {
		require.ErrorIs(t, new(wire.Batch).Unpack(frames), wire.ErrMalformed)
		require.ErrorIs(t, new(wire.Results).Unpack(frames), wire.ErrMalformed)
	}
	require.Zero(t, wire.KindOf([][]byte{{}}))
	require.ErrorIs(t, wire.Unpack(nil, new(wire.Cancel)), wire.ErrMalformed)
	require.ErrorIs(t, wire.Unpack([][]byte{{byte(wire.KindCancel), 0xc1}}, new(wire.Cancel)), wire.ErrMalformed)

	frames := (&wire.Batch{ID: 1 << 20, Call: 1 << 20, Lo: 1 << 20, Count: 1 << 20, Timeout: 1 << 20, Left: 1 << 20, Attempt: 3}).Pack(nil)
	for n := range len(frames[0]) {
		require.ErrorIs(t, new(wire.Batch).Unpack([][]byte{frames[0][:n]}), wire.ErrMalformed, "%d bytes", n)
	}
	for _, r := range results {
		frames, err := r.Pack(nil)
		require.NoError(t, err)
		for n := range len(frames[0]) {
			require.ErrorIs(t, new(wire.Results).Unpack([][]byte{frames[0][:n]}), wire.ErrMalformed, "%d bytes", n)
		}
	}
	frames = (&wire.Request{ID: 1 << 20, Object: 1 << 20}).Pack(wire.KindRequest)
	for n := range len(frames[0]) {
		require.ErrorIs(t, new(wire.Request).Unpack([][]byte{frames[0][:n]}), wire.ErrMalformed, "%d bytes", n)
	}
	frames = (&wire.Reply{ID: 1 << 20}).Pack()
	for n := range len(frames[0]) {
		require.ErrorIs(t, new(wire.Reply).Unpack([][]byte{frames[0][:n]}), wire.ErrMalformed, "%d bytes", n)
	}
	require.ErrorIs(t, new(wire.Reply).Unpack((&wire.Request{}).Pack(wire.KindRequest)), wire.ErrMalformed, "another kind")
	huge := append([]byte{byte(wire.KindBatch), 0, 1, 1}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1)
	require.ErrorIs(t, new(wire.Batch).Unpack([][]byte{huge}), wire.ErrMalformed, "a negative number of tasks")
}

// Whatever comes is either refused as malformed or understood. What is understood
// can be sent again, with the same meaning.
func FuzzUnpack(f *testing.F) {
	for _, g := range batches {
		f.Add(g.Pack(nil)[0])
	}
	for _, r := range results {
		frames, err := r.Pack(nil)
		require.NoError(f, err)
		f.Add(frames[0])
	}
	f.Add(wire.MustPack(wire.KindCancel, wire.Cancel{Call: 7, From: 9})[0])
	f.Add(wire.MustPack(wire.KindReturned, wire.Returned{Batches: []wire.Remainder{{Batch: 1, From: 2}}})[0])
	f.Add((&wire.Request{ID: 1 << 20, Object: 3, Op: 2}).Pack(wire.KindRequest, []byte("says"))[0])
	f.Add((&wire.Reply{ID: 1 << 20, Code: 2}).Pack([]byte("says"))[0])
	f.Fuzz(func(t *testing.T, head []byte) {
		frames := [][]byte{head}
		refused := func(err error) bool {
			if err != nil && !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return err != nil
		}
		var g, again wire.Batch
		if !refused(g.Unpack(frames)) {
			if g.Lo < 0 || g.Count < 0 || g.Timeout < 0 {
				t.Fatalf("%+v", g)
			}
			require.NoError(t, again.Unpack(g.Pack(nil)))
			require.Equal(t, g, again)
		}
		var r, more wire.Results
		if !refused(r.Unpack(frames)) {
			if r.From < 0 || r.Count < 0 || r.Started < -1 || r.Nanos < 0 {
				t.Fatalf("%+v", r)
			}
			packed, err := r.Pack(nil)
			require.NoError(t, err)
			require.NoError(t, more.Unpack(packed))
			require.Equal(t, len(r.Errors), len(more.Errors))
			require.Equal(t, r.Started, more.Started)
		}
		var request, sameRequest wire.Request
		if says := slices.Clone(frames); !refused(request.Unpack(says)) {
			packed := request.Pack(wire.KindOf(frames), slices.Clone(says)...)
			require.NoError(t, sameRequest.Unpack(packed))
			require.Equal(t, request, sameRequest)
			require.Equal(t, says, packed)
		}
		var reply, sameReply wire.Reply
		if says := slices.Clone(frames); !refused(reply.Unpack(says)) {
			packed := reply.Pack(slices.Clone(says)...)
			require.NoError(t, sameReply.Unpack(packed))
			require.Equal(t, reply, sameReply)
			require.Equal(t, says, packed)
		}
		for _, fields := range []any{new(wire.Cancel), new(wire.Returned), new(wire.Hello), new(wire.Done), new(wire.Visit)} {
			refused(wire.Unpack(frames, fields))
		}
	})
}

// Read leaves on the stream what comes after the fields.
func TestFieldsOnAStream(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	require.NoError(t, wire.Write(&stream, wire.Visit{Name: "seven"}))
	whole := bytes.Clone(stream.Bytes())
	stream.WriteString("rest")
	var visit wire.Visit
	require.NoError(t, wire.Read(&stream, &visit))
	require.Equal(t, "seven", visit.Name)
	require.Equal(t, "rest", stream.String())
	for n := range whole {
		require.Error(t, wire.Read(bytes.NewReader(whole[:n]), &visit), n)
	}
	for _, malformed := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x00", "\x00\x00\x00\x01\xc1"} {
		require.ErrorIs(t, wire.Read(strings.NewReader(malformed), &visit), wire.ErrMalformed)
	}
}
