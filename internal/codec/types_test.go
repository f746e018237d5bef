package codec_test

import (
	"encoding"
	"encoding/binary"
	"errors"
	"math/big"
	"net/netip"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

type (
	Vec    []float64
	Level  int32
	Label  string
	Matrix [2][3]int16
	Pair   struct{ X, Y float64 }
	Inner  struct {
		Name string
		Vec  Vec
	}
	Base struct {
		ID   int
		Kind Label
	}
	hidden struct{ Shown int }
	Node   struct {
		Value int
		Next  *Node
		More  []Node
		By    map[string]*Node
	}
	Box[T any] struct{ Value T }
	Embeds     struct {
		Base
		*Inner
		hidden
		Extra int
	}
	Shadows struct {
		Base
		ID string
	}
	Event struct {
		time.Time
		Name string
	}
	Holder struct {
		*Handle[int]
		Text
		N int
	}
	Overrides struct {
		Handle[int]
		Left int
	}
	Stamped[T any] struct {
		time.Time
		Value T
	}
	Rewrites[T any] struct {
		time.Time
		left T
	}
	Tagged struct {
		A       int    `msgpack:"a"`
		B       []int  `msgpack:"b,omitempty"`
		C       *int   `msgpack:",omitempty"`
		Secret  string `msgpack:"-"`
		private int    `msgpack:"-"`
		Hook    func() `msgpack:"-"`
	}
	Everything struct {
		Bool       bool
		Int        int
		Int8       int8
		Int64      int64
		Uint16     uint16
		Uint64     uint64
		Float32    float32
		Float64    float64
		Complex64  complex64
		Complex128 complex128
		String     string
		Bytes      []byte
		Duration   time.Duration
		Time       time.Time
		Floats     []float64
		Flags      []bool
		Durations  []time.Duration
		Rows       [][]float32
		Points     [][2]float64
		Matrix     Matrix
		Names      []string
		Array      [2]string
		Map        map[string][]int
		ByInt      map[int8]Inner
		ByPair     map[Pair]bool
		Any        any
		List       []any
		Pointer    *Inner
		Double     **int
		ToSlice    *[]int
		Node       *Node
		Empty      struct{}
		Big        *big.Int
		Addr       netip.Addr
		Handle     *Handle[string]
		Custom     Custom
		Own        []Own
		Boxes      []Box[Vec]
		Embeds     Embeds
		Tagged     Tagged
	}
)

// Handle travels as eight bytes, whatever it holds, as shared values, queues
// and proxies do.
type Handle[T any] struct {
	id uint64
	_  *T
}

var (
	_ encoding.BinaryMarshaler   = (*Handle[int])(nil)
	_ encoding.BinaryUnmarshaler = (*Handle[int])(nil)
)

func (h *Handle[T]) MarshalBinary() ([]byte, error) {
	if h.id == 666 {
		return nil, errClosed
	}
	return binary.BigEndian.AppendUint64(nil, h.id), nil
}

func (h *Handle[T]) UnmarshalBinary(b []byte) error {
	if len(b) != 8 {
		return errors.New("a handle is eight bytes")
	}
	h.id = binary.BigEndian.Uint64(b)
	return nil
}

var errClosed = errors.New("closed")

// Custom writes two values, as msgpack's own example does.
type Custom struct {
	name string
	n    int
}

func (c *Custom) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeMulti(c.name, c.n) }
func (c *Custom) DecodeMsgpack(d *msgpack.Decoder) error { return d.DecodeMulti(&c.name, &c.n) }

// Own has MarshalMsgpack, with a value receiver.
type Own struct{ s string }

func (o Own) MarshalMsgpack() ([]byte, error)  { return msgpack.Marshal(o.s) }
func (o *Own) UnmarshalMsgpack(b []byte) error { return msgpack.Unmarshal(b, &o.s) }

// Text is a number whose own encoding is text.
type Text int

func (t Text) MarshalText() ([]byte, error) { return []byte{'a' + byte(t)}, nil }
func (t *Text) UnmarshalText(b []byte) error {
	if len(b) != 1 {
		return errors.New("one letter")
	}
	*t = Text(b[0] - 'a')
	return nil
}

// Half has an encoding but no decoding, so it travels field by field.
type Half struct{ N int }

func (Half) MarshalText() ([]byte, error) { return nil, errors.New("not to be called") }

func everything() Everything {
	one, p := 1, new(int)
	return Everything{
		Bool: true, Int: -1 << 30, Int8: -128, Int64: 1 << 62, Uint16: 65535, Uint64: 1<<64 - 1,
		Float32: 1.5, Float64: -2.25, Complex64: 1 + 2i, Complex128: 3 - 4i, String: "héllo\x00", Bytes: []byte("raw"),
		Duration: time.Minute, Time: time.Date(2024, 2, 29, 1, 2, 3, 4, time.FixedZone("", 3600)),
		Floats: []float64{1, 2}, Flags: []bool{true, false}, Durations: []time.Duration{1, 2}, Rows: [][]float32{{1}, nil, {}},
		Points: [][2]float64{{1, 2}, {3, 4}}, Matrix: Matrix{{1, 2, 3}, {4, 5, 6}}, Names: []string{"a", ""},
		Array: [2]string{"x", "y"}, Map: map[string][]int{"a": {1}, "nil": nil, "empty": {}},
		ByInt: map[int8]Inner{-1: {Name: "n", Vec: Vec{1}}}, ByPair: map[Pair]bool{{1, 2}: true},
		Any: []float64{1, 2}, List: []any{nil, true, int8(1), "s", map[string]any{"k": float32(1)}}, Pointer: &Inner{Name: "p"},
		Double: &p, ToSlice: new([]int), Node: &Node{Value: 1, Next: &Node{Value: 2}, More: []Node{{Value: 3}}, By: map[string]*Node{"x": nil}},
		Big: big.NewInt(1 << 40), Addr: netip.MustParseAddr("10.0.0.1"), Handle: &Handle[string]{id: 7}, Custom: Custom{"c", 3},
		Own: []Own{{"o"}}, Boxes: []Box[Vec]{{Vec{1}}}, Embeds: Embeds{Base: Base{ID: 1, Kind: "k"}, Inner: &Inner{Name: "in"}, hidden: hidden{2}, Extra: 3},
		Tagged: Tagged{A: 1, B: []int{2}, C: &one},
	}
}

func (o Overrides) MarshalBinary() ([]byte, error)  { return []byte{byte(o.Left)}, nil }
func (o *Overrides) UnmarshalBinary(b []byte) error { o.Left = int(b[0]); return nil }

func (r *Rewrites[T]) MarshalBinary() ([]byte, error) { return msgpack.Marshal(r.left) }
func (r *Rewrites[T]) UnmarshalBinary(b []byte) error { return msgpack.Unmarshal(b, &r.left) }
