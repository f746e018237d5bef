package codec_test

import (
	"fmt"
	"math"
	"math/big"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

// trip encodes v and decodes it into a new value of its type.
func trip(t testing.TB, v any) any {
	t.Helper()
	frames, err := codec.Marshal(v)
	require.NoError(t, err)
	p := reflect.New(reflect.TypeOf(v))
	require.NoError(t, codec.Unmarshal(frames, p.Interface()))
	return p.Elem().Interface()
}

func ptr[T any](v T) *T { return &v }

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	long := make([]float64, 10_000)
	for i := range long {
		long[i] = float64(i)
	}
	for i, v := range []any{
		true, 5, -5, int8(-33), int16(-200), int32(-70000), int64(math.MinInt64), uint8(200), uint16(300), uint32(70000),
		uint64(math.MaxUint64), uintptr(1), float32(1.5), math.Inf(-1), complex64(1i), complex(1, -1), "", strings.Repeat("é", 40),
		strings.Repeat("x", 300), strings.Repeat("x", 70_000), Level(3), Label("x"), time.Second,
		[]bool{true}, []int{1, -1}, []int8{-1}, []int16{-1}, []int32{-1}, []int64{-1}, []uint{1}, []uint8{1}, []uint16{1},
		[]uint32{1}, []uint64{1}, []uintptr{1}, []float32{1}, []float64{math.MaxFloat64}, []complex64{1i}, []complex128{1i},
		[]int(nil), []int{}, []byte(nil), []byte{}, []string(nil), []string{}, []Pair(nil), []Pair{}, map[string]int(nil), map[string]int{},
		Vec{1, 2}, []Level{1}, []time.Duration{1}, Matrix{{1}}, []Matrix{{{1}}, {{2}}}, [3]float64{1, 2, 3}, [0]int{}, [][0]int{{}, {}},
		[2][2]string{{"a"}, {"b"}}, [3]bool{true}, [3]byte{1, 2, 3}, [][]float64{{1}, nil, {}}, [][]int{}, long, Vec(long),
		[][]float64{long, long}, [10_000]int{5: 1}, make([]bool, 40_000), make([][2]float32, 10_000), make([]byte, 1<<20), struct{}{}, []struct{}{{}, {}}, make([]string, 20), make([]string, 70_000),
		map[int]string{1: "a", -1: "b"}, map[bool][]int{true: {1}}, map[[2]int]Pair{{1, 2}: {3, 4}}, map[float64]*Pair{1: nil, 2: {}},
		map[Text]Text{1: 2}, map[Label]any{"x": "y"}, map[any]any{"a": int8(1), int8(2): nil}, func() map[int]int {
			m := map[int]int{}
			for i := range 100_000 {
				m[i] = i
			}
			return m
		}(),
		(*int)(nil), ptr(5), ptr(ptr(5)), ptr((*int)(nil)), ptr(ptr((*int)(nil))), ptr([]int(nil)), ptr(ptr([]int(nil))), ptr(map[string]int(nil)),
		ptr(any(nil)), []*Pair{nil, {1, 2}}, ptr([]*[]int{nil, ptr([]int(nil)), {1}}),
		time.Time{}, time.Unix(1, 2).UTC(), time.Date(1800, 1, 1, 0, 0, 0, 0, time.FixedZone("", -7200)), []time.Time{{}, time.Unix(5, 0).UTC()},
		Node{Value: 1, Next: &Node{}, More: []Node{{}}}, []Node{}, Box[int]{1}, Box[Vec]{Vec{1}}, Box[Box[*string]]{Box[*string]{ptr("x")}},
		Embeds{Base: Base{1, "k"}, hidden: hidden{2}, Extra: 3}, Embeds{Inner: &Inner{"n", nil}}, Shadows{Base{1, "k"}, "id"},
		Tagged{A: 1}, Tagged{A: 1, B: []int{1}, C: ptr(0)},
		map[int][5000]float64{1: {1}, 2: {2}, 3: {3}}, map[[5000]int]Box[[40_000]bool]{{1}: {}, {2}: {[40_000]bool{true}}},
		Event{time.Unix(1, 2).UTC(), "n"}, Holder{&Handle[int]{id: 1}, 2, 3}, Holder{N: 1}, Overrides{Left: 3},
		Stamped[int]{time.Unix(1, 2).UTC(), 3}, &Stamped[string]{Value: "s"}, Rewrites[int]{left: 3}, &Rewrites[string]{left: "s"},
		Text(3), []Text{1, 2}, [2]Text{1, 2}, Half{3}, Custom{"a", 1}, []Custom{{"a", 1}, {"", 2}}, &Custom{"a", 1}, Own{"x"}, []*Own{nil, {"x"}},
		net.IPv4(1, 2, 3, 4), net.IP(nil), []net.IP{nil, net.IPv4(1, 2, 3, 4)}, *big.NewInt(-5), big.NewInt(1 << 50),
		struct{ A, B any }{1.5, nil}, []any{}, []any(nil), []any{nil, "a", []any{int8(1)}}, map[string]any{"a": []int{1}},
		everything(), ptr(everything()), []Everything{everything(), {}},
	} {
		t.Run(fmt.Sprintf("%d %.30T", i, v), func(t *testing.T) {
			t.Parallel()
			got := trip(t, v)
			assert.Equal(t, v, got)
			assert.True(t, reflect.DeepEqual(v, got), "nil and empty differ")
		})
	}
}

func TestNaN(t *testing.T) {
	t.Parallel()
	got := trip(t, []float64{math.NaN(), math.Copysign(0, -1)}).([]float64)
	assert.True(t, math.IsNaN(got[0]) && math.Signbit(got[1]))
}

// The type of a value in an any does not travel.
func TestAny(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Round(0)
	for _, test := range []struct{ in, want any }{
		{nil, nil}, {true, true}, {"s", "s"}, {1.5, 1.5}, {float32(1.5), float32(1.5)}, {1i, 1i}, {complex64(1i), complex64(1i)},
		{5, int8(5)}, {-5, int8(-5)}, {200, uint8(200)}, {-200, int16(-200)}, {70_000, uint32(70_000)}, {uint64(1), int8(1)},
		{int64(math.MinInt64), int64(math.MinInt64)}, {uint64(math.MaxUint64), uint64(math.MaxUint64)}, {time.Second, uint32(time.Second)},
		{[]int{1}, []int{1}}, {[]int64{1}, []int64{1}}, {Vec{1}, []float64{1}}, {[]byte{1}, []byte{1}}, {[]bool{true}, []bool{true}}, {[]uint16{}, []uint16{}},
		{make([]float64, 10_000), make([]float64, 10_000)}, {[3]int8{1, 2, 3}, []int8{1, 2, 3}},
		{[][2]int{{1, 2}, {3, 4}}, []any{[]int{1, 2}, []int{3, 4}}}, {[]string{"a"}, []any{"a"}}, {[]int(nil), nil},
		{Pair{1, 2}, map[string]any{"X": 1., "Y": 2.}}, {&Pair{1, 2}, map[string]any{"X": 1., "Y": 2.}}, {(*Pair)(nil), nil}, {ptr((*int)(nil)), nil},
		{map[int]string{1: "a"}, map[any]any{int8(1): "a"}}, {map[string]int{}, map[string]any{}}, {now, now},
		{&Custom{"a", 1}, []any{"a", int8(1)}}, {Own{"x"}, "x"}, {Text(1), "b"}, {&Handle[int]{id: 1}, []byte{0, 0, 0, 0, 0, 0, 0, 1}},
	} {
		t.Run(fmt.Sprintf("%T", test.in), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, trip(t, Box[any]{test.in}).(Box[any]).Value)
			frames, err := codec.Marshal(test.in)
			require.NoError(t, err)
			var top any
			require.NoError(t, codec.Unmarshal(frames, &top))
			assert.Equal(t, test.want, top)
		})
	}
	frames, err := codec.Marshal(nil)
	require.NoError(t, err)
	top := any("not nil")
	require.NoError(t, codec.Unmarshal(frames, &top))
	assert.Nil(t, top)
}

// A type may hold a reference to something elsewhere and travel as that
// reference: as a field, an element, or the whole value.
func TestHandles(t *testing.T) {
	t.Parallel()
	h := &Handle[string]{id: 7}
	assert.Equal(t, h, trip(t, h))
	assert.Equal(t, *h, trip(t, *h))
	assert.Equal(t, []*Handle[string]{h, nil}, trip(t, []*Handle[string]{h, nil}))
	assert.Equal(t, []Handle[string]{*h}, trip(t, []Handle[string]{*h}))
	assert.Equal(t, map[string]Handle[string]{"a": *h}, trip(t, map[string]Handle[string]{"a": *h}))
	type task struct {
		Theta *Handle[string]
		Value Handle[int]
		Deep  []struct{ H map[int]*Handle[Pair] }
	}
	in := task{Theta: h, Value: Handle[int]{id: 8}, Deep: []struct{ H map[int]*Handle[Pair] }{{map[int]*Handle[Pair]{1: {id: 9}}}}}
	assert.Equal(t, []task{in, {}}, trip(t, []task{in, {}}))
	_, err := codec.Signature(reflect.TypeFor[task]())
	assert.NoError(t, err)

	_, err = codec.Marshal([]task{{}, {Deep: []struct{ H map[int]*Handle[Pair] }{{}, {map[int]*Handle[Pair]{1: {id: 666}}}}}})
	assert.ErrorIs(t, err, errClosed)
	assert.EqualError(t, err, "element 1: Deep[1].H[1]: codec_test.Handle[github.com/fiber-go/fiber/internal/codec_test.Pair]: closed")
}

func TestLargeSlicesGoByReference(t *testing.T) {
	t.Parallel()
	in := struct {
		Name  string
		Theta []float64
		Small []float64
		Rows  map[string][]int32
	}{"x", make([]float64, 1<<16), make([]float64, 10), map[string][]int32{"a": make([]int32, 8192)}}
	in.Theta[3], in.Rows["a"][4] = 3, 4
	frames, err := codec.Marshal(&in)
	require.NoError(t, err)
	require.Len(t, frames, 3)
	assert.Same(t, unsafe.SliceData(frames[1]), (*byte)(unsafe.Pointer(&in.Theta[0])))
	assert.Less(t, len(frames[0]), 200)
	assert.Equal(t, len(frames[0])+8<<16+4*8192, codec.Size(frames))

	out := in
	require.NoError(t, codec.Unmarshal(frames, &out))
	assert.Equal(t, in, out)
	assert.Same(t, &in.Theta[0], &out.Theta[0])
	assert.Equal(t, len(out.Theta), cap(out.Theta))

	crooked := append(make([]byte, 1, 1+len(frames[1])), frames[1]...)[1:]
	out.Theta = nil
	require.NoError(t, codec.Unmarshal([][]byte{frames[0], crooked, frames[2]}, &out))
	assert.Equal(t, in, out)
}

func TestManyLargeSlices(t *testing.T) {
	t.Parallel()
	in := make([][]byte, 300)
	for i := range in {
		in[i] = make([]byte, 32<<10)
		in[i][7] = byte(i)
	}
	frames, err := codec.Marshal(in)
	require.NoError(t, err)
	assert.Len(t, frames, 201)
	assert.Equal(t, in, trip(t, in))
}

func TestChunk(t *testing.T) {
	t.Parallel()
	in := make([]int, 1_000_000)
	in[999_999] = math.MinInt
	frames, err := codec.Marshal(in)
	require.NoError(t, err)
	assert.Len(t, frames, 2)
	assert.Less(t, len(frames[0]), 8)
	var out []int
	require.NoError(t, codec.Unmarshal(frames, &out))
	assert.Equal(t, in, out)
	assert.Equal(t, strconv.IntSize == 64, &in[0] == &out[0])
	var other []int64
	require.NoError(t, codec.Unmarshal(frames, &other), "int and int64 are the same")
}

// Builds whose fields differ exchange the fields that they have in common.
func TestOtherFields(t *testing.T) {
	t.Parallel()
	type before struct {
		A    int
		Big  []float64
		Deep map[string]any
		P    **int
		B    string
		C    []float64
	}
	type after struct {
		C []float64
		D *int
		B string
	}
	frames, err := codec.Marshal(before{1, make([]float64, 9000), map[string]any{"x": []any{make([]byte, 40_000)}}, ptr((*int)(nil)), "b", make([]float64, 5000)})
	require.NoError(t, err)
	require.Len(t, frames, 4)
	out := after{D: ptr(1)}
	require.NoError(t, codec.Unmarshal(frames, &out))
	assert.Equal(t, after{C: make([]float64, 5000), B: "b"}, out)
}

func TestOmitted(t *testing.T) {
	t.Parallel()
	frames, err := codec.Marshal(Box[any]{Tagged{A: 1, Secret: "s", private: 2}})
	require.NoError(t, err)
	var out Box[any]
	require.NoError(t, codec.Unmarshal(frames, &out))
	assert.Equal(t, map[string]any{"a": int8(1), "b": nil, "C": nil}, out.Value)

	frames, err = codec.Marshal(Box[any]{Embeds{Base: Base{1, "k"}, hidden: hidden{2}}})
	require.NoError(t, err)
	require.NoError(t, codec.Unmarshal(frames, &out))
	assert.Equal(t, map[string]any{"Base": map[string]any{"ID": int8(1), "Kind": "k"}, "Inner": nil, "hidden": map[string]any{"Shown": int8(2)}, "Extra": int8(0)}, out.Value)
}

// A struct may ask to travel as an array of its fields. The reader takes what it
// knows, and leaves the rest zero.
func TestStructAsArray(t *testing.T) {
	t.Parallel()
	type short struct {
		_ struct{} `msgpack:",as_array"`
		A int
		B string
	}
	type long struct {
		_ struct{} `msgpack:",as_array"`
		A int
		B string
		C []int
	}
	frames, err := codec.Marshal(long{A: 1, B: "b", C: []int{2}})
	require.NoError(t, err)
	var list any
	require.NoError(t, codec.Unmarshal(frames, &list))
	assert.Len(t, list, 3)
	var less short
	require.NoError(t, codec.Unmarshal(frames, &less))
	assert.Equal(t, short{A: 1, B: "b"}, less)
	frames, err = codec.Marshal(less)
	require.NoError(t, err)
	more := long{C: []int{3}} // is replaced
	require.NoError(t, codec.Unmarshal(frames, &more))
	assert.Equal(t, long{A: 1, B: "b"}, more)
	assert.Error(t, codec.Unmarshal(frames, &Tagged{}))
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	type fresh struct {
		Next *fresh
		Everything
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				in := fresh{&fresh{}, everything()}
				assert.Equal(t, in, trip(t, in))
			}
		})
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("not with the race detector")
	}
	in := []int{5}
	var out []int
	var frames [][]byte
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { frames, _ = codec.Marshal(in) }), 4.)
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _ = codec.Unmarshal(frames, &out) }), 1.)
	assert.Equal(t, in, out)

	own := make([]bin, 1000) // they share goroutines
	assert.Less(t, testing.AllocsPerRun(10, func() { frames, _ = codec.Marshal(own) }), 1200.)
	assert.Less(t, testing.AllocsPerRun(10, func() { _ = codec.Unmarshal(frames, &own) }), 200.)
}
