package journal_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/journal"
)

func TestRecords(t *testing.T) {
	records := [][][]byte{{[]byte("one"), nil, bytes.Repeat([]byte("large"), 1000)}, {}, {[]byte("two")}}
	var file []byte
	for _, r := range records {
		file = append(file, record(int64(len(file)), r...)...)
	}
	rest := file
	for _, want := range records {
		frames, left, err := journal.Next(rest, int64(len(file)-len(rest)))
		require.NoError(t, err)
		require.Len(t, frames, len(want))
		for i := range want {
			require.True(t, bytes.Equal(want[i], frames[i]))
		}
		rest = left
	}
	_, _, err := journal.Next(rest, int64(len(file)))
	require.Equal(t, io.EOF, err)

	// A part of a record, a changed byte, or a record elsewhere is none.
	one := record(7, []byte("value"))
	for n := 1; n < len(one); n++ {
		_, _, err := journal.Next(one[:n], 7)
		require.ErrorIs(t, err, journal.ErrDamaged, n)
	}
	for i := range one {
		damaged := bytes.Clone(one)
		damaged[i] ^= 1
		_, _, err := journal.Next(damaged, 7)
		require.ErrorIs(t, err, journal.ErrDamaged, i)
	}
	_, _, err = journal.Next(one, 8)
	require.ErrorIs(t, err, journal.ErrDamaged)
}

// Whatever is left of a file, the last version or the one before is loaded.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	version := func(n byte) [][]byte { return [][]byte{{n}, bytes.Repeat([]byte{n}, 100)} }
	load := func() (byte, error) {
		records, instead, err := journal.Load(path, "kind")
		require.NoError(t, err)
		require.Len(t, records, 2)
		return records[0][0][0], instead
	}
	_, _, err := journal.Load(path, "kind")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for n := range byte(3) {
		require.NoError(t, journal.Replace(path, "kind", version(n), version(n)))
		got, instead := load()
		require.NoError(t, instead)
		require.Equal(t, n, got)
	}
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		if n == len(record(0, append([][]byte{[]byte("kind")}, version(2)...)...)) {
			continue // a record and no other is a file, too
		}
		got, instead := load()
		require.ErrorIs(t, instead, journal.ErrDamaged)
		require.EqualValues(t, 1, got)
	}
	require.NoError(t, os.Remove(path))
	got, instead := load()
	require.ErrorIs(t, instead, fs.ErrNotExist)
	require.EqualValues(t, 1, got)

	// A damaged version does not take the place of the one before.
	require.NoError(t, os.WriteFile(path, whole[:5], 0o600))
	require.NoError(t, journal.Replace(path, "kind", version(7), version(7)))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	got, _ = load()
	require.EqualValues(t, 1, got)
	require.NoError(t, os.WriteFile(path+".before", whole[:3], 0o600))
	_, _, err = journal.Load(path, "kind")
	require.ErrorIs(t, err, journal.ErrDamaged)
	require.ErrorContains(t, err, path+": at byte 0")
	require.ErrorContains(t, err, path+".before: at byte 0")

	// One that is missing is not as if there had been none.
	require.NoError(t, os.Remove(path))
	_, _, err = journal.Load(path, "kind")
	require.ErrorIs(t, err, journal.ErrDamaged)
	require.NotErrorIs(t, err, fs.ErrNotExist)

	// Who may read it stays as it was.
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, journal.Replace(path, "kind", version(8), version(8)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	// What is something else stays.
	_, _, err = journal.Load(path, "other")
	require.ErrorIs(t, err, journal.ErrForeign)
	require.ErrorIs(t, journal.Replace(path, "other", version(9)), journal.ErrForeign)
	got, _ = load()
	require.EqualValues(t, 8, got)
	foreign := filepath.Join(t.TempDir(), "foreign")
	require.NoError(t, os.WriteFile(foreign, []byte("something else"), 0o600))
	require.ErrorIs(t, journal.Replace(foreign, "kind", version(9)), journal.ErrForeign)
	text, err := os.ReadFile(foreign)
	require.NoError(t, err)
	require.Equal(t, "something else", string(text))

	// A link leads to both.
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, journal.Replace(link, "kind", version(10), version(10)))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	records, _, err := journal.Load(link, "kind")
	require.NoError(t, err)
	require.EqualValues(t, 8, records[0][0][0])

	// What cannot be written leaves what was there, and nothing else.
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.Error(t, journal.Replace(dir, "kind", version(1)))
	require.NoFileExists(t, dir+".new")
	require.Error(t, journal.Replace(filepath.Join(path, "file"), "kind", version(1)))
}

// record returns a record.
func record(offset int64, frames ...[]byte) []byte {
	var b bytes.Buffer
	_, _ = journal.Write(&b, offset, frames...) // into memory
	return b.Bytes()
}

func FuzzNext(f *testing.F) {
	f.Add(record(0, []byte("a"), []byte("b")), 3)
	f.Fuzz(func(t *testing.T, file []byte, offset int) {
		frames, rest, err := journal.Next(file, int64(offset))
		if err == nil {
			require.True(t, bytes.Equal(file, append(record(int64(offset), frames...), rest...)))
		}
	})
}
