package codec_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/codec"
)

var _ = Opaque{a: 1, b: 2}.a + Opaque{}.b + Late{}.since + HalfLate{}.since

type (
	Hooked  struct{ Config struct{ Hook func() } }
	Failed  struct{ Err error }
	Opaque  struct{ a, b int }
	Guarded struct {
		sync.Mutex
		N int
	}
	Twice struct {
		A int `msgpack:"x"`
		B int `msgpack:"x"`
	}
	BehindHidden struct{ *hidden }
	Liar         struct{ Left int }
	Late         struct {
		time.Time
		N     int
		since int
	}
	HalfLate struct {
		Half
		N     int
		since int
	}
	Panicker struct{}
)

func (*Liar) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeMulti(1, 2) }
func (*Liar) DecodeMsgpack(d *msgpack.Decoder) error { _, err := d.DecodeInt(); return err }

func (Panicker) MarshalText() ([]byte, error)  { panic("oh") }
func (*Panicker) UnmarshalText(b []byte) error { return nil }

func TestMarshalErrors(t *testing.T) {
	t.Parallel()
	ring := &Node{}
	ring.Next = ring
	list := []any{nil}
	list[0] = list
	table := map[string]any{}
	table["a"] = table
	var loop any
	loop = &loop
	type Slices []Slices
	slices := Slices{nil}
	slices[0] = slices
	for _, test := range []struct {
		v    any
		want string
	}{
		{make(chan int), "chan int: a chan cannot leave its process"},
		{func() {}, "func(): a func cannot leave its process"},
		{Hooked{}, "Config.Hook: func(): a func cannot leave its process"},
		{[]Hooked{{}}, "element 0: Config.Hook: func(): a func cannot leave its process"},
		{[]any{1, "a", func() {}}, "element 2: func(): a func cannot leave its process"},
		{[][]any{{}, {1, make(chan int)}}, "element 1: [1]: chan int: a chan cannot leave its process"},
		{&[]any{1, func() {}}, "[1]: func(): a func cannot leave its process"},
		{map[string]any{"k": Box[any]{[]any{func() {}}}}, `["k"].Value[0]: func(): a func cannot leave its process`},
		{map[int]any{-1: func() {}}, `[-1]: func(): a func cannot leave its process`},
		{map[any]int{uint8(1): 1, any(make(chan int)): 2}, `[…]: chan int: a chan cannot leave its process`},
		{[2]any{nil, func() {}}, "[1]: func(): a func cannot leave its process"},
		{Failed{}, "Err: error: an error cannot travel inside a value: return it, or send its text"},
		{Box[any]{errors.New("x")}, "Value: errors.errorString: it has only unexported fields and would arrive empty"},
		{Box[context.Context]{}, "Value: context.Context: an interface with methods does not say which type to make: use any or a concrete type"},
		{Opaque{}, "codec_test.Opaque: it has only unexported fields and would arrive empty"},
		{Twice{}, "codec_test.Twice: two fields are named x"},
		{BehindHidden{}, "codec_test.BehindHidden: the embedded *hidden is not exported: nothing can be decoded into it"},
		{[]Panicker{{}}, "element 0: codec_test.Panicker: panic: oh"},
		{Box[[]any]{list}, "nested more than 1000 levels deep, or a cycle"},
		{ring, "nested more than 1000 levels deep, or a cycle"},
		{table, "nested more than 1000 levels deep, or a cycle"},
		{&loop, "nested more than 1000 levels deep, or a cycle"},
		{slices, "nested more than 1000 levels deep, or a cycle"},
	} {
		t.Run(fmt.Sprintf("%T", test.v), func(t *testing.T) {
			t.Parallel()
			frames, err := codec.Marshal(test.v)
			assert.Nil(t, frames)
			var e *codec.Error
			require.ErrorAs(t, err, &e)
			assert.Less(t, len(e.Path), 250)
			if strings.HasPrefix(test.want, "nested") {
				assert.Equal(t, test.want, e.Reason)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
	deep, nodes := any(int8(1)), any((*Node)(nil))
	for range 999 {
		deep = []any{deep}
		nodes = &Node{Next: nodes.(*Node)}
	}
	assert.Equal(t, deep, trip(t, Box[any]{deep}).(Box[any]).Value)
	assert.Equal(t, nodes, trip(t, nodes))
	frames, err := codec.Marshal(nodes)
	require.NoError(t, err)
	require.NoError(t, codec.Unmarshal(frames, new(any)))
}

func TestUnmarshalErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, out any
		want    string
	}{
		{[]int32{1}, new([]float64), "[]float64: found numbers of another type, int32"},
		{make([]int32, 10_000), new([]float64), "[]float64: found numbers of another type, int32"},
		{[]uint{1}, new([]int), "[]int: found numbers of another type, uint"},
		{[][2]int{{1, 2}}, new([]int), "[]int: found numbers of another type, rows of int"},
		{[][2]int{{1, 2}}, new([][3]int), "[][3]int: found numbers of another type, rows of int"},
		{[]string{"a"}, new([]int), "[]int: found an array instead of numbers"},
		{[]int{1}, new([]string), "[]string: found extension 1 instead of an array"},
		{[3]int{}, new([4]int), "[4]int: found 3 elements"},
		{[3]string{}, new([2]string), "[2]string: found 3 elements"},
		{300, new(int8), "int8: the integer does not fit"},
		{-1, new(uint), "uint: the integer does not fit"},
		{uint64(1 << 63), new(int64), "int64: the integer does not fit"},
		{"a", new(int), "int: found a string instead of an integer"},
		{nil, new(int), "int: found nil instead of an integer"},
		{1, new(string), "string: found an integer instead of a string"},
		{1.5, new(float32), "float32: found a float of 8 bytes"},
		{1, new(bool), "bool: found an integer instead of a bool"},
		{1i, new(complex64), "complex64: found extension 4 of 16 bytes"},
		{map[string]any{"X": "a"}, new(Pair), "X: float64: found a string instead of a float"},
		{[]any{map[string]any{"X": 1., "Y": 2.}, map[string]any{"Y": nil}}, new([]Pair), "element 1: Y: float64: found nil instead of a float"},
		{map[string]any{"Hook": nil}, new(struct{ Hook func() }), "Hook: func(): a func cannot leave its process"},
		{map[string]int{"a": 1}, new(map[string]string), `["a"]: string: found an integer instead of a string`},
		{map[int]int{1: 1}, new(map[string]int), `[key]: string: found an integer instead of a string`},
		{"abc", new(Text), "codec_test.Text: one letter"},
		{[]byte("abc"), new(Handle[int]), "codec_test.Handle[int]: a handle is eight bytes"},
		{&Liar{}, new(Liar), "codec_test.Liar: DecodeMsgpack left 1 bytes"},
		{1, 1, "int: the target must be a non-nil pointer"},
		{1, (*int)(nil), "*int: the target must be a non-nil pointer"},
		{1, nil, "the target must be a non-nil pointer"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			frames, err := codec.Marshal(test.in)
			require.NoError(t, err)
			err = codec.Unmarshal(frames, test.out)
			assert.EqualError(t, err, test.want)
			assert.ErrorAs(t, err, new(*codec.Error))
		})
	}
}

// frame builds hostile messages from bytes and strings.
func frame(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		}
	}
	return b
}

func TestHostileBytes(t *testing.T) {
	t.Parallel()
	many := strings.Repeat
	for _, test := range []struct {
		frames [][]byte
		out    any
		want   string
	}{
		{nil, new(int), "int: there are no frames"},
		{[][]byte{{}}, new(int), "int: the message ends too early"},
		{[][]byte{{}}, new(any), "interface {}: the message ends too early"},
		{[][]byte{{1, 2}}, new(int), "int: there is more than the value: 1 bytes, 0 frames"},
		{[][]byte{{1}, {}}, new(int), "int: there is more than the value: 0 bytes, 1 frames"},
		{[][]byte{frame(0xd3, 1, 2)}, new(int), "int: the message ends too early"},
		{[][]byte{frame(0xdd, 0xff, 0xff, 0xff, 0xff)}, new(any), "interface {}: the message ends too early"},
		{[][]byte{frame(0xdd, 0xff, 0xff, 0xff, 0xff)}, new([]string), "[]string: the message ends too early"},
		{[][]byte{frame(0xdf, 0xff, 0xff, 0xff, 0xff)}, new(map[int]int), "map[int]int: the message ends too early"},
		{[][]byte{frame(0xdb, 0xff, 0xff, 0xff, 0xff)}, new(string), "string: the message ends too early"},
		{[][]byte{frame(0xc6, 0xff, 0xff, 0xff, 0xff)}, new([]byte), "[]uint8: the message ends too early"},
		{[][]byte{frame(0xc9, 0xff, 0xff, 0xff, 0xff, 1)}, new([]int), "[]int: the message ends too early"},
		{[][]byte{frame(0x82, 1)}, new(map[int]int), "map[int]int: the message ends too early"},
		{[][]byte{frame(many("\x91", 5000), 1)}, new(any), "nested more than 1000 levels deep"},
		{[][]byte{frame(many("\x81\x01", 5000), 1)}, new(any), "nested more than 1000 levels deep"},
		{[][]byte{frame(many("\xc1", 5000), 0xc0)}, new(any), "nested more than 1000 levels deep"},
		{[][]byte{frame(many("\x81\xa4Next", 5000), 0xc0)}, new(Node), "nested more than 1000 levels deep"},
		{[][]byte{frame(0x81, 0xa1, "u", many("\x91", 5000), 1)}, new(Node), "nested more than 1000 levels deep"},
		{[][]byte{frame(0xc8, 0x10, 0, 5, many("\x91", 4096))}, new(Custom), "nested more than 1000 levels deep"},
		{[][]byte{frame(0xc7, 5, 5, 0xdd, 0xff, 0xff, 0xff, 0xff)}, new(Custom), "codec_test.Custom: the message ends too early"},
		{[][]byte{frame(0xc7, 0, 5)}, new(Custom), "codec_test.Custom: EOF"},
		{[][]byte{frame(0xc7, 4, 1, 1, 0, 1, 2)}, new([]bool), "[]bool: found a bool that is neither true nor false"},
		{[][]byte{frame(0xc7, 10, 1, 1, many("\x00", 7), 2, 0)}, new([]bool), "[]bool: found a bool that is neither true nor false"},
		{[][]byte{frame(0xc7, 4, 1, 1, 0, 1, 2)}, new([3]bool), "[3]bool: found a bool that is neither true nor false"},
		{[][]byte{frame(0xc7, 4, 1, 2, 0, 1, 2)}, new([]int), "[]int: 3 bytes are not a whole number of int"},
		{[][]byte{frame(0xc7, 0, 1)}, new([]int), "[]int: numbers of an unknown kind"},
		{[][]byte{frame(0xd4, 1, 0)}, new([]int), "[]int: numbers of an unknown kind"},
		{[][]byte{frame(0xd4, 1, 17)}, new(any), "interface {}: numbers of an unknown kind"},
		{[][]byte{frame(0xd5, 1, 0x82, 0)}, new(any), "interface {}: numbers in rows of an invalid length"},
		{[][]byte{frame(0xd4, 2, 2)}, new([]int), "[]int: a frame is missing"},
		{[][]byte{frame(0x92, 0xd4, 2, 2, 0xd4, 2, 2), make([]byte, 8)}, new([][]int), "element 1: []int: a frame is missing"},
		{[][]byte{frame(0x81, 0xa1, "u", 0xd4, 2, 2)}, new(Node), "codec_test.Node: a frame is missing"},
		{[][]byte{frame(0xd4, 2, 2), make([]byte, 7)}, new([]int), "[]int: 7 bytes are not a whole number of int"},
		{[][]byte{frame(0x81, 0x91, 1, 1)}, new(any), "interface {}: found a key that is not comparable"},
		{[][]byte{frame(0x81, 0x91, 1, 1)}, new(map[any]int), "map[interface {}]int: found a key that is not comparable"},
		{[][]byte{frame(0xd4, 99, 1)}, new(any), "interface {}: found extension 99 of 1 bytes"},
		{[][]byte{frame(0xd4, 3, 9)}, new(any), "time.Time: Time.UnmarshalBinary: unsupported version"},
		{[][]byte{frame(0xc7, 0, 3)}, ptr(everything().Time), "time.Time: Time.UnmarshalBinary: no data"},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			err := codec.Unmarshal(test.frames, test.out)
			var e *codec.Error
			require.ErrorAs(t, err, &e)
			assert.Less(t, len(e.Path), 250)
			if strings.HasPrefix(test.want, "nested") {
				assert.Equal(t, test.want, e.Reason)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
}

// If a field comes twice, in any order, only the last one counts.
func TestFieldTwice(t *testing.T) {
	t.Parallel()
	in := frame(0x85, 0xa1, "B", 0x92, 1, 2, 0xa1, "A", 1, 0xa1, "B", 0x91, 3, 0xa1, "A", 2, 0xa1, "B", 0x90)
	var out struct {
		A int
		B []any
	}
	require.NoError(t, codec.Unmarshal([][]byte{in}, &out))
	assert.Equal(t, 2, out.A)
	assert.Equal(t, []any{}, out.B)
}

// A short message takes no memory for elements that it only claims to have.
func TestNoMemoryForPromises(t *testing.T) {
	type wide struct{ A [1 << 16]byte }
	in := append(frame(0xdc, 0x40, 0), make([]byte, 0x4000)...) // 16384 elements, the first of them wrong
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var out []wide
			assert.Error(b, codec.Unmarshal([][]byte{in}, &out))
		}
	})
	assert.Less(t, got.AllocedBytesPerOp(), int64(4<<20))
}

func TestSignatureErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[int](), ""},
		{reflect.TypeFor[any](), ""},
		{reflect.TypeFor[Everything](), ""},
		{reflect.TypeFor[[]map[string]*Node](), ""},
		{reflect.TypeFor[struct{}](), ""},
		{reflect.TypeFor[Guarded](), ""},
		{reflect.TypeFor[Custom](), ""},
		{reflect.TypeFor[Tagged](), ""},
		{reflect.TypeFor[func()](), "func(): a func cannot leave its process"},
		{reflect.TypeFor[Hooked](), "Config.Hook: func(): a func cannot leave its process"},
		{reflect.TypeFor[[]*Hooked](), "[].Config.Hook: func(): a func cannot leave its process"},
		{reflect.TypeFor[map[string]chan int](), "[]: chan int: a chan cannot leave its process"},
		{reflect.TypeFor[map[Box[chan int]]int](), "[key].Value: chan int: a chan cannot leave its process"},
		{reflect.TypeFor[Box[[2]error]](), "Value[]: error: an error cannot travel inside a value: return it, or send its text"},
		{reflect.TypeFor[Box[fmt.Stringer]](), "Value: fmt.Stringer: an interface with methods does not say which type to make: use any or a concrete type"},
		{reflect.TypeFor[Opaque](), "codec_test.Opaque: it has only unexported fields and would arrive empty"},
		{reflect.TypeFor[Box[*Opaque]](), "Value: codec_test.Opaque: it has only unexported fields and would arrive empty"},
		{reflect.TypeFor[Twice](), "codec_test.Twice: two fields are named x"},
		{reflect.TypeFor[HalfLate](), ""},
		{reflect.TypeFor[Late](), "codec_test.Late: it may have MarshalBinary only by embedding time.Time, and has unexported fields: give the embedded field a name"},
		{reflect.TypeFor[BehindHidden](), "codec_test.BehindHidden: the embedded *hidden is not exported: nothing can be decoded into it"},
	} {
		t.Run(test.t.String(), func(t *testing.T) {
			t.Parallel()
			_, err := codec.Signature(test.t)
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
}
