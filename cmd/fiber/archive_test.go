//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "a"), "a")
	write(t, filepath.Join(from, "sub", "b"), strings.Repeat("b", 1<<16))
	require.NoError(t, os.Symlink("sub/b", filepath.Join(from, "l")))
	require.NoError(t, os.Chmod(filepath.Join(from, "a"), 0o750))
	archive := packedHere(t, from)
	for range 2 { // the second time over what is there
		_, err := unpack(bytes.NewReader(archive), to, "other")
		require.NoError(t, err)
	}
	b, err := os.ReadFile(filepath.Join(to, "other", "l"))
	require.NoError(t, err)
	assert.Len(t, b, 1<<16)
	info, err := os.Stat(filepath.Join(to, "other", "a"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o750), info.Mode())
}

// The header of a file of any size is one that busybox reads.
func TestArchiveOfALargeFile(t *testing.T) {
	t.Parallel()
	from := filepath.Join(t.TempDir(), "large")
	write(t, from, "")
	require.NoError(t, os.Truncate(from, 9<<30))
	r, w := io.Pipe()
	s := sending{from: from, name: "in", end: "end"}
	go func() { w.CloseWithError(s.pack(w)) }()
	h, err := tar.NewReader(r).Next()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	assert.Equal(t, tar.FormatGNU, h.Format)
	assert.EqualValues(t, 9<<30, h.Size)
}

// Files from a claim are written to their destination, and nowhere else.
func TestArchiveThatReachesOut(t *testing.T) {
	t.Parallel()
	top := tar.Header{Name: "in", Typeflag: tar.TypeDir, Mode: 0o755}
	for name, headers := range map[string][]tar.Header{
		"dots":     {{Name: "../x", Typeflag: tar.TypeReg, Mode: 0o644}},
		"absolute": {{Name: "/tmp/fiber-test-x", Typeflag: tar.TypeReg, Mode: 0o644}},
		"hard":     {top, {Name: "in/l", Typeflag: tar.TypeLink, Linkname: "../x"}},
		"link":     {top, {Name: "in/l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "in/l/x", Typeflag: tar.TypeReg, Mode: 0o644}},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, h := range headers {
			require.NoError(t, w.WriteHeader(&h))
		}
		require.NoError(t, w.Close())
		outside := t.TempDir()
		dir := filepath.Join(outside, "dir")
		require.NoError(t, os.Mkdir(dir, 0o755))
		_, err := unpack(&archive, dir, "in")
		require.Error(t, err, name)
		require.NoFileExists(t, filepath.Join(outside, "x"))
		require.NoFileExists(t, "/tmp/fiber-test-x")
	}
}

// No link is made that leads anywhere else, on either side, even through other links.
func TestArchiveWithLinksThatReachOut(t *testing.T) {
	t.Parallel()
	for _, links := range [][]string{ // name, target …; the last one is refused
		{"in/l", "/etc/passwd"},
		{"in/l", ".."},
		{"in/l", "../"},
		{"in/l", "../other"},
		{"in/sub/l", "../../other"},
		{"in/l", "..//etc"},
		{"in/l", "sub/../../other"},
		{"in/l", "./../other"},
		{"in/s", "sub/deep", "in/l", "s/../../.."},
		{"in/sub/deep/up", "../..", "in/sub/deep/up/sub/deep/l", "../../../../.."},
		{"in/sub/deep/up", "../..", "in/sub/deep/up/l", "../.."},
		{"in", "sub"},
		{"in/sub/deep/s", "../..", "in/s", "hard in/sub/deep/s"},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if links[0] != "in" {
			for _, dir := range []string{"in", "in/sub", "in/sub/deep"} {
				require.NoError(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
			}
		}
		for i := 0; i < len(links); i += 2 {
			h := tar.Header{Name: links[i], Typeflag: tar.TypeSymlink, Linkname: links[i+1]}
			if target, hard := strings.CutPrefix(h.Linkname, "hard "); hard {
				h.Typeflag, h.Linkname = tar.TypeLink, target
			}
			require.NoError(t, w.WriteHeader(&h))
		}
		require.NoError(t, w.Close())
		to := t.TempDir()
		last := links[len(links)-2:]
		_, err := unpack(&archive, to, "in")
		require.ErrorContains(t, err, last[0]+" is ", links)
		require.Len(t, tree(t, to), 1, links)

		if len(links) == 2 && links[0] != "in" { // a folder with such a link is not sent either
			from := filepath.Join(t.TempDir(), "in")
			require.NoError(t, os.MkdirAll(filepath.Join(from, "sub"), 0o755))
			require.NoError(t, os.Symlink(last[1], filepath.Join(filepath.Dir(from), last[0])))
			s := sending{from: from, name: "in", end: "end"}
			require.ErrorContains(t, s.pack(new(bytes.Buffer)), last[0]+" is a link to "+last[1], links)
		}
	}
	from, to := filepath.Join(t.TempDir(), "in"), t.TempDir()
	write(t, filepath.Join(from, "sub", "deep", "file"), "text")
	for name, target := range map[string]string{"a": "sub/deep/file", "sub/b": "../a", "sub/deep/c": "../b", "sub/deep/top": "../..", "d": "not/yet", "e": "sub/", "f": "..dots"} {
		require.NoError(t, os.Symlink(target, filepath.Join(from, name)))
	}
	_, err := unpack(bytes.NewReader(packedHere(t, from)), to, "out")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(to, "out", "sub", "deep", "c"))
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))
}
