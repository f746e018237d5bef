package codec_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

// Moody is a value whose own encoding fails where it says so.
type Moody string

func (m Moody) MarshalText() ([]byte, error) {
	if m == "stay" {
		return nil, errors.New("I stay")
	}
	return []byte(m), nil
}

func (m *Moody) UnmarshalText(b []byte) error {
	if *m = Moody(b); *m == "turn" {
		return errors.New("I turn back")
	}
	return nil
}

// An element that cannot be encoded or decoded fails alone, wherever in it the
// reason lies, and what follows is intact.
func TestEach(t *testing.T) {
	t.Parallel()
	type element struct {
		Before []float64 // has a frame of its own
		Deep   []any
		Of     map[string][]Moody
		After  []float64
	}
	moods := []Moody{"stay", "go", "turn", "turn", "go", "stay", "stay", "go", "turn"}
	in := make([]element, len(moods))
	listed := 0
	for i, m := range moods {
		large := make([]float64, 5000)
		large[0] = float64(i)
		in[i] = element{large, []any{[]any{i}}, map[string][]Moody{"a": {"fine", m}}, large[:i]}
	}
	list := func(any) bool { listed++; return true }
	frames, encoded, failed, err := codec.MarshalEach(reflect.ValueOf(in), list)
	require.NoError(t, err)
	require.Len(t, failed, 3)
	for i, at := range []int{0, 5, 6} {
		assert.EqualError(t, failed[i], fmt.Sprintf(`element %d: Of["a"][1]: codec_test.Moody: I stay`, at))
	}
	assert.Len(t, encoded, 2*6, "what was not sent is not listed")
	assert.Len(t, frames, 1+6)

	out := []element{{}}
	_, failed, err = codec.UnmarshalEach(frames, &out, list)
	require.NoError(t, err)
	require.Len(t, out, len(in))
	wrong := map[int]string{}
	for _, e := range failed {
		wrong[e.Index] = e.Error()
	}
	for i, m := range moods {
		switch m {
		case "go":
			assert.NotContains(t, wrong, i)
			assert.Equal(t, in[i].Of, out[i].Of)
			assert.Equal(t, in[i].Before, out[i].Before)
			assert.Len(t, out[i].After, i)
		case "turn":
			assert.Equal(t, fmt.Sprintf(`element %d: Of["a"][1]: codec_test.Moody: I turn back`, i), wrong[i])
			assert.Zero(t, out[i])
		case "stay":
			assert.Contains(t, wrong, i, "nil is no struct")
		}
	}

	// Only elements fail alone, not what is not there.
	_, _, err = codec.UnmarshalEach([][]byte{frame(0x93, 0xc3, 0xa2, "aa")}, new([]int), nil)
	assert.Error(t, err)
	_, failed, err = codec.UnmarshalEach([][]byte{frame(0x93, 0xc3, 0xa1, "a")}, new([]string), nil)
	assert.Error(t, err)
	assert.Empty(t, failed)
}

// Broken is a value whose methods end badly, as its number says.
type Broken int

func (b Broken) end(at Broken) error {
	switch b % 100 {
	case at:
		return errors.New("it fails")
	case at + 1:
		panic("it panics")
	case at + 2:
		runtime.Goexit()
	}
	return nil
}

func (b Broken) MarshalBinary() ([]byte, error) { return fmt.Append(nil, int(b)), b.end(10) }

func (b *Broken) UnmarshalBinary(text []byte) error {
	fmt.Sscan(string(text), (*int)(b))
	return b.end(20)
}

// The same holds in a long list, where the methods of most elements run on one
// goroutine, and one that panics or ends that goroutine fails alone.
func TestEachOfMany(t *testing.T) {
	t.Parallel()
	type element struct {
		Large []float64 // has a frame of its own, in some
		Own   []Broken
	}
	in := make([]element, 350)
	for i := range in {
		in[i].Own = []Broken{0, Broken(i)}
		if i%50 == 11 || i%50 == 13 {
			in[i].Large = make([]float64, 5000)
			in[i].Large[0] = float64(i)
		}
	}
	is := func(i, at int) bool { return i%100 >= at && i%100 <= at+2 }
	check := func(failed []*codec.Error, at, n int) {
		t.Helper()
		reasons := []string{"it fails", "panic: it panics", "the function called runtime.Goexit"}
		for _, e := range failed {
			if is(e.Index, at) {
				n--
				assert.Equal(t, reasons[e.Index%100-at], e.Reason)
			}
		}
		assert.Zero(t, n)
		assert.True(t, slices.IsSortedFunc(failed, func(a, b *codec.Error) int { return a.Index - b.Index }))
	}
	list := func(any) bool { return true }
	frames, _, failed, err := codec.MarshalEach(reflect.ValueOf(in), list)
	require.NoError(t, err)
	require.Len(t, failed, 12)
	check(failed, 10, 12)

	var out []element
	_, failed, err = codec.UnmarshalEach(frames, &out, list)
	require.NoError(t, err)
	require.Len(t, out, len(in))
	require.Len(t, failed, 12+12, "nil is no element, either")
	check(failed, 20, 12)
	for i, x := range out {
		if is(i, 10) || is(i, 20) {
			assert.Zero(t, x, "element %d", i)
		} else {
			assert.Equal(t, in[i], x, "element %d", i)
		}
	}
}
