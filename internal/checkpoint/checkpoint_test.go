package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/journal"
)

// written returns a file with some results.
func written(t testing.TB, keyed bool) []byte {
	path := filepath.Join(t.TempDir(), "file")
	file, err := journal.Open(path, time.Hour)
	require.NoError(t, err)
	_, err = checkpoint.Begin(file, &checkpoint.Header{Func: "f", In: "int", Out: "string", Keyed: keyed}, false, nil)
	require.NoError(t, err)
	_, err = checkpoint.Append(file, &checkpoint.Record{Run: "first", Total: 5})
	require.NoError(t, err)
	outs, err := codec.Marshal([]string{"a", "b", "c"})
	require.NoError(t, err)
	ins, err := codec.Marshal([]int{1, 2, 3})
	require.NoError(t, err)
	r := checkpoint.Record{Lo: 2, N: 3, Without: []int{1}, Inputs: len(ins)}
	if keyed {
		r.Keys = []string{"x", "y", "z"}
	} else {
		r.Digests = make([]byte, 3*codec.DigestSize)
	}
	_, err = checkpoint.Append(file, &r, append(outs, ins...)...)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// Whatever is in a file, reading it ends, and what it yields fits.
func FuzzLook(f *testing.F) {
	for _, keyed := range []bool{false, true} {
		file := written(f, keyed)
		f.Add(file, false, []byte(nil))
		f.Add(file, true, file[len(file)/2:])
	}
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, file []byte, frame bool, text []byte) {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		if frame { // in a record whose sum is right
			out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = journal.Write(out, int64(len(file)), text, file[:min(24, len(file))], text)
			require.NoError(t, errors.Join(err, out.Close()))
		}
		_, _ = checkpoint.Look(path, func(r *checkpoint.Record, frames [][]byte) error { // it may be no checkpoint
			for lo, hi := range r.Stretches() {
				require.True(t, 0 <= lo && lo < hi && hi <= r.N, "%+v", r)
			}
			var outs []string
			var ins []int
			_ = r.Results(frames, &outs, &ins) // bytes may be anything
			return nil
		})
	})
}
