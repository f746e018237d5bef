package codec_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/codec"
)

// ends are the ways in which the methods of the types below may end badly.
type ends int

const (
	returns ends = iota
	exits
	panics
)

func (e ends) now(at int) {
	switch {
	case at == wrong && e == exits:
		runtime.Goexit()
	case at == wrong && e == panics:
		panic("no")
	}
}

// whenEncoded and whenDecoded are how the methods end for the value wrong.
var whenEncoded, whenDecoded ends

const wrong = 23

type bin struct{ n byte }

func (b bin) MarshalBinary() ([]byte, error) { whenEncoded.now(int(b.n)); return []byte{b.n}, nil }
func (b *bin) UnmarshalBinary(from []byte) error {
	b.n = from[0]
	whenDecoded.now(int(b.n))
	return nil
}

type text struct{ n byte }

func (x text) MarshalText() ([]byte, error)     { whenEncoded.now(int(x.n)); return []byte{x.n}, nil }
func (x *text) UnmarshalText(from []byte) error { x.n = from[0]; whenDecoded.now(int(x.n)); return nil }

type packed struct{ n int }

func (p packed) EncodeMsgpack(e *msgpack.Encoder) error {
	whenEncoded.now(p.n)
	return e.EncodeInt(int64(p.n))
}
func (p *packed) DecodeMsgpack(d *msgpack.Decoder) (err error) {
	p.n, err = d.DecodeInt()
	whenDecoded.now(p.n)
	return err
}

type raw struct{ n byte }

func (r raw) MarshalMsgpack() ([]byte, error) { whenEncoded.now(int(r.n)); return []byte{r.n}, nil }
func (r *raw) UnmarshalMsgpack(from []byte) error {
	r.n = from[0]
	whenDecoded.now(int(r.n))
	return nil
}

func listOf[T any](of func(n int) T) func() (any, any) {
	return func() (any, any) {
		list := make([]T, 30)
		for i := range list {
			list[i] = of(i)
		}
		return list, new([]T)
	}
}

// When a type's own method ends its goroutine or panics, Marshal and Unmarshal
// return an error that says where; their callers go on.
func TestMethodsThatDoNotReturn(t *testing.T) {
	t.Cleanup(func() { whenEncoded, whenDecoded = returns, returns })
	type holder struct{ Inner any }
	for name, list := range map[string]func() (any, any){
		"binary":         listOf(func(n int) bin { return bin{byte(n)} }),
		"text":           listOf(func(n int) text { return text{byte(n)} }),
		"CustomEncoder":  listOf(func(n int) packed { return packed{n} }),
		"Marshaler":      listOf(func(n int) raw { return raw{byte(n)} }),
		"a pointer":      listOf(func(n int) *bin { return &bin{byte(n)} }),
		"in a map":       listOf(func(n int) map[string]text { return map[string]text{"x": {byte(n)}} }),
		"in a list":      listOf(func(n int) []text { return []text{{byte(n)}} }),
		"a struct":       listOf(func(n int) struct{ X [1]raw } { return struct{ X [1]raw }{[1]raw{{byte(n)}}} }),
		"in any":         listOf(func(n int) any { return packed{n} }),
		"in a field any": listOf(func(n int) holder { return holder{bin{byte(n)}} }),
	} {
		for how, reason := range map[ends]string{exits: "called runtime.Goexit", panics: "panic: no"} {
			t.Run(fmt.Sprint(name, " ", reason), func(t *testing.T) {
				in, out := list()
				whenEncoded, whenDecoded = how, returns
				_, err := codec.Marshal(in)
				var e *codec.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, wrong, e.Index)
				require.Contains(t, e.Reason, reason)

				whenEncoded, whenDecoded = returns, how
				frames, err := codec.Marshal(in)
				require.NoError(t, err)
				err = codec.Unmarshal(frames, out)
				if name == "in any" || name == "in a field any" { // what it was is not known there
					require.NoError(t, err)
					return
				}
				require.ErrorAs(t, err, &e)
				require.Equal(t, wrong, e.Index)
				require.Contains(t, e.Reason, reason)
			})
		}
	}
}

// The same holds in maps, whose error names the type.
func TestMethodsInMapsThatDoNotReturn(t *testing.T) {
	t.Cleanup(func() { whenEncoded, whenDecoded = returns, returns })
	in, out := map[int]bin{}, map[int]bin{}
	for n := range 30 {
		in[n] = bin{byte(n)}
	}
	for how, reason := range map[ends]string{exits: "called runtime.Goexit", panics: "panic: no"} {
		var e *codec.Error
		whenEncoded, whenDecoded = how, returns
		_, err := codec.Marshal(in)
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.Reason, reason)
		require.Equal(t, "codec_test.bin", e.Type)

		whenEncoded, whenDecoded = returns, how
		frames, err := codec.Marshal(in)
		require.NoError(t, err)
		err = codec.Unmarshal(frames, &out)
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.Reason, reason)
		require.Equal(t, "codec_test.bin", e.Type)
	}
	whenEncoded, whenDecoded = returns, returns
	frames, err := codec.Marshal(in)
	require.NoError(t, err)
	require.NoError(t, codec.Unmarshal(frames, &out))
	require.Equal(t, in, out)
}

// filled is decoded from no bytes to something else than its zero value.
type filled struct {
	bytes  []byte
	filled bool
}

func (f filled) MarshalBinary() ([]byte, error)       { return f.bytes, nil }
func (f *filled) UnmarshalBinary([]byte) (none error) { f.filled = true; return }

// A type's method that returns nil has returned no bytes, and not no value.
func TestNilBytesOfAMethod(t *testing.T) {
	t.Parallel()
	type all struct {
		Value   filled
		Pointer *filled
		List    []filled
		Any     any
	}
	frames, err := codec.Marshal(all{Pointer: new(filled), List: make([]filled, 1), Any: filled{}})
	require.NoError(t, err)
	var out all
	require.NoError(t, codec.Unmarshal(frames, &out))
	require.Equal(t, all{filled{filled: true}, &filled{filled: true}, []filled{{filled: true}}, []byte{}}, out)
}
