package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/journal"
)

// scanned opens a file, and returns what is in it.
func scanned(t *testing.T, path string) (*journal.File, []string, error) {
	t.Helper()
	f, err := journal.Open(path, time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	var all []string
	err = f.Scan(func(offset int64, frames [][]byte) error {
		again, err := f.Read(offset)
		require.NoError(t, err)
		require.Equal(t, frames, again)
		all = append(all, string(bytes.Join(frames, []byte("|"))))
		return nil
	})
	return f, all, err
}

// written makes a file of records, some of which the disk has for sure.
func written(t *testing.T, path string, n, synced int) (file []byte, all []string, ends []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 0))
	f, err := journal.Open(path, time.Hour)
	require.NoError(t, err)
	require.NoError(t, f.Scan(func(int64, [][]byte) error { return nil }))
	for i := range n {
		frames := [][]byte{fmt.Append(nil, i), bytes.Repeat([]byte{byte(i)}, r.IntN(300))}
		offset, err := f.Append(frames...)
		require.NoError(t, err)
		again, err := f.Read(offset)
		require.NoError(t, err)
		require.Equal(t, bytes.Join(frames, nil), bytes.Join(again, nil))
		all = append(all, string(bytes.Join(frames, []byte("|"))))
		ends = append(ends, int(offset)+len(record(offset, frames...)))
		if i == synced {
			require.NoError(t, f.Close())
			f, err = journal.Open(path, time.Hour)
			require.NoError(t, err)
			require.NoError(t, f.Scan(func(int64, [][]byte) error { return nil }))
		}
	}
	file, err = os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return file, all, ends
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	_, all, _ := written(t, path, 40, 20)
	f, got, err := scanned(t, path)
	require.NoError(t, err)
	require.Equal(t, all, got)
	_, err = journal.Open(path, 0)
	require.ErrorIs(t, err, journal.ErrOpen)
	require.NoError(t, f.Close())

	// At once.
	f, err = journal.Open(path, 0)
	require.NoError(t, err)
	require.NoError(t, f.Scan(func(int64, [][]byte) error { return nil }))
	_, err = f.Append([]byte("last"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, got, err = scanned(t, path)
	require.NoError(t, err)
	require.Equal(t, append(all, "last"), got)
	_, err = f.Append([]byte("more"))
	require.ErrorIs(t, err, journal.ErrClosed)
}

// Wherever the program ends, what was whole is there, and the file goes on behind it.
func TestFileThatIsCutOff(t *testing.T) {
	dir := t.TempDir()
	file, all, ends := written(t, filepath.Join(dir, "whole"), 12, 5)
	path := filepath.Join(dir, "file")
	for n := 0; n <= len(file); n += 1 + n%7 {
		require.NoError(t, os.WriteFile(path, file[:n], 0o600))
		whole := 0
		for whole < len(ends) && ends[whole] <= n {
			whole++
		}
		f, got, err := scanned(t, path)
		require.NoError(t, err)
		require.Equal(t, all[:whole], append([]string{}, got...))
		_, err = f.Append([]byte("more"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		f, got, err = scanned(t, path)
		require.NoError(t, err)
		require.Equal(t, append(all[:whole:whole], "more"), got)
		require.NoError(t, f.Close())
	}
}

// What the disk had for sure and is damaged is an error. What it may not have had is dropped, with what follows.
func TestFileThatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	file, all, ends := written(t, filepath.Join(dir, "whole"), 12, 5)
	path := filepath.Join(dir, "file")
	for i := range file {
		flipped := bytes.Clone(file)
		flipped[i] ^= 0x10
		damaged := [][]byte{flipped, slices.Delete(bytes.Clone(file), i, i+1), slices.Insert(bytes.Clone(file), i, file[i]^1)}[i%3]
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		record := 0
		for record < len(ends) && ends[record] <= i {
			record++
		}
		f, got, err := scanned(t, path)
		if record <= 5 {
			require.ErrorIs(t, err, journal.ErrDamaged, i)
			require.Regexp(t, `^at byte \d+ it is damaged`, err)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, damaged, after)
		} else {
			require.NoError(t, err)
			require.Equal(t, all[:min(record, len(all))], got, i)
			require.NotZero(t, f.Dropped())
		}
		require.NoError(t, f.Close())
	}
}

// A record may hold such a file.
func TestFileInAFile(t *testing.T) {
	dir := t.TempDir()
	inner, _, _ := written(t, filepath.Join(dir, "inner"), 12, 5)
	path := filepath.Join(dir, "file")
	_, all, _ := written(t, path, 3, 1)
	f, _, err := scanned(t, path)
	require.NoError(t, err)
	offset, err := f.Append(inner, inner)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, file[:int(offset)+len(inner)+100], 0o600))
	_, got, err := scanned(t, path)
	require.NoError(t, err)
	require.Equal(t, all, got)
}

func TestScanEndsWithAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	written(t, path, 3, 1)
	f, err := journal.Open(path, 0)
	require.NoError(t, err)
	defer f.Close()
	enough := errors.New("enough")
	require.Equal(t, enough, f.Scan(func(int64, [][]byte) error { return enough }))
	_, err = f.Append([]byte("more"))
	require.Error(t, err)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
