package codec_test

import (
	"errors"
	"fmt"
	"reflect"
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
