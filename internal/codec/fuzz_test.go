package codec_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

var update = flag.Bool("update", false, "write the seed corpus of FuzzUnmarshal anew")

// FuzzUnmarshal: bytes from outside decode to a value or an *Error, and a
// decoded value survives a round trip.
func FuzzUnmarshal(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		frames := [][]byte{first}
		if len(second) > 0 {
			frames = append(frames, second)
		}
		for _, out := range []any{new(Everything), new(any), new([]int), new([]Node), new(map[any]any)} {
			if err := codec.Unmarshal(frames, out); err != nil {
				require.ErrorAs(t, err, new(*codec.Error))
				continue
			}
			again, err := codec.Marshal(out)
			if err != nil {
				require.ErrorAs(t, err, new(*codec.Error))
				continue
			}
			require.NoError(t, codec.Unmarshal(again, reflect.New(reflect.TypeOf(out)).Interface()))
		}
	})
}

// TestCorpus, with -update, writes the seeds: messages of every kind, and their
// beginnings.
func TestCorpus(t *testing.T) {
	t.Parallel()
	if !*update {
		t.Skip("without -update")
	}
	dir := filepath.Join("testdata", "fuzz", "FuzzUnmarshal")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i, v := range []any{
		everything(), Everything{}, any(everything()), []int{1, 2}, make([]int, 4096), make([][2]float64, 2048), []Node{{More: []Node{{}}}},
		map[any]any{"a": 1, 2: []any{nil, 1.5}}, []any{everything().Time, 1i, &Custom{"a", 1}, ptr((*int)(nil)), []bool{true}},
	} {
		frames, err := codec.Marshal(v)
		require.NoError(t, err)
		second := bytes.Join(frames[1:], nil)
		for j, first := range [][]byte{frames[0], frames[0][:len(frames[0])/2]} {
			seed := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n[]byte(%q)\n", first, second[:min(len(second), 64)])
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%d-%d", i, j)), []byte(seed), 0o644))
		}
	}
}

// FuzzRoundTrip: what goes in comes out.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", int64(0), 0., []byte(nil), true)
	f.Add("name", int64(-1), 1.5, []byte("bytes"), false)
	f.Add("\xff", int64(1<<62), -1e300, bytes.Repeat([]byte{1}, 40_000), true)
	f.Fuzz(func(t *testing.T, s string, n int64, x float64, b []byte, yes bool) {
		if x != x {
			return
		}
		type value struct {
			S    string
			N    int64
			I    int8
			U    uint32
			X    float64
			B    []byte
			Yes  []bool
			Rows [][]float64
			M    map[string]int64
			Any  any
			Next *value
			P    **int64
			E    Embeds
		}
		in := value{
			s, n, int8(n), uint32(n), x, b, []bool{yes, !yes}, [][]float64{{x}, nil}, map[string]int64{s: n}, []any{s, x, yes, b, map[string]any{s: nil}},
			&value{S: s}, ptr(&n), Embeds{Base: Base{ID: int(n)}, Inner: &Inner{Name: s}},
		}
		if b == nil {
			in.Any = nil
		}
		frames, err := codec.Marshal(in)
		require.NoError(t, err)
		var out value
		require.NoError(t, codec.Unmarshal(frames, &out))
		if !reflect.DeepEqual(in, out) {
			require.Equal(t, in, out)
			t.Fatal(errors.New("nil and empty differ"))
		}
	})
}
