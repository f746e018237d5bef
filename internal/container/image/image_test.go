//go:build unix

package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/image"
)

// A program finds in its image what it expects of a system.
func TestAProgramRunsInItsImage(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func() (string, error){"static": static, "dynamic": dynamic} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Regexp(t, fine(name), run(t, newImage(t, built(t, program))))
		})
	}
}

// fine returns what testdata/system prints if all is well. Only root can become the image's user.
func fine(linked string) string {
	if os.Geteuid() == 0 {
		return "^fine fiber /tmp " + linked + "\n$"
	}
	return "^fine .* " + linked + "\n$"
}

func TestCertificatesAreInTheImage(t *testing.T) {
	program := built(t, static)
	file := filepath.Join(t.TempDir(), "own.pem")
	require.NoError(t, os.WriteFile(file, []byte(certificate), 0o600))
	t.Setenv("SSL_CERT_FILE", file)
	assert.Regexp(t, fine("static"), run(t, newImage(t, program), "CERTIFICATES=1"))
}

func TestTheRunningExecutableIsTheDefault(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	assert.Equal(t, newImage(t, self).Name(), newImage(t, "").Name())
	assert.Regexp(t, `^fiber-image-test:[0-9a-f]{32}$`, newImage(t, "").Name())
}

// The same file produces the same image, whatever its directory, the working directory and the time.
func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	t.Parallel()
	program := built(t, dynamic)
	first := newImage(t, program)
	again := filepath.Join(t.TempDir(), filepath.Base(program))
	command(t, ".", "cp", program, again)
	require.NoError(t, os.Chmod(again, 0o700))
	require.NoError(t, os.Chtimes(again, time.Unix(1, 0), time.Unix(1e9, 0)))
	second := newImage(t, again)

	assert.Equal(t, first.Name(), second.Name())
	assert.Equal(t, digestOf(t, saved(t, first)), digestOf(t, saved(t, second)))
}

func TestAnotherProgramIsAnotherImage(t *testing.T) {
	t.Parallel()
	program := built(t, static)
	changed := filepath.Join(t.TempDir(), filepath.Base(program))
	command(t, ".", "cp", program, changed)
	f, err := os.OpenFile(changed, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write([]byte{0})
	require.NoError(t, err)
	require.NoError(t, f.Close())

	one, other := newImage(t, program), newImage(t, changed)
	assert.Equal(t, one.Repository(), other.Repository())
	assert.NotEqual(t, one.Name(), other.Name())
	assert.NotEqual(t, digestOf(t, saved(t, one)), digestOf(t, saved(t, other)))
}

func TestNames(t *testing.T) {
	t.Parallel()
	program := built(t, static)
	for name, want := range map[string]string{
		"pi": "fiber-pi", "My Program": "fiber-my-program", "a__b..c--d.exe": "fiber-a-b-c-d", "π": "fiber-program", "-x-": "fiber-x",
	} {
		link := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Symlink(program, link))
		assert.Equal(t, want, newImage(t, link).Repository(), name)
	}
}

func TestTheImageIsSound(t *testing.T) {
	t.Parallel()
	img := saved(t, newImage(t, built(t, dynamic)))
	layers, err := img.Layers()
	require.NoError(t, err)
	for _, l := range layers {
		content, err := l.Uncompressed()
		require.NoError(t, err)
		is, _, err := v1.SHA256(content)
		require.NoError(t, err)
		require.NoError(t, content.Close())
		said, err := l.DiffID()
		require.NoError(t, err)
		assert.Equal(t, said, is)
	}
	config := configOf(t, img)
	assert.Equal(t, []string{image.Path}, config.Entrypoint)
	assert.Empty(t, config.Cmd)
	assert.Equal(t, image.User, config.User)
	assert.Equal(t, "/tmp", config.WorkingDir)
	assert.Equal(t, "dynamic", config.Labels[image.Label])
	file, err := img.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, here, image.Platform{OS: file.OS, Arch: file.Architecture})
}

// Only root may change what is in the image, and every user can write to /tmp.
func TestEntries(t *testing.T) {
	t.Parallel()
	seen := map[string]*tar.Header{}
	for _, h := range entries(t, saved(t, newImage(t, built(t, dynamic)))) {
		seen[h.Name] = h
		assert.Zero(t, h.Uid+h.Gid, h.Name)
		assert.True(t, h.ModTime.Equal(time.Unix(0, 0)), h.Name)
		switch {
		case h.Typeflag == tar.TypeSymlink:
		case h.Name == "tmp", h.Name == "var/tmp":
			assert.Equal(t, fs.ModeDir|fs.ModeSticky|0o777, h.FileInfo().Mode(), h.Name)
		default:
			assert.Zero(t, h.FileInfo().Mode().Perm()&0o022, h.Name)
		}
	}
	require.Contains(t, seen, "fiber/program")
	assert.Equal(t, fs.FileMode(0o755), seen["fiber/program"].FileInfo().Mode())
	assert.Contains(t, seen, "etc/passwd")
	assert.Contains(t, seen, "tmp")
}

// An engine that has to add a directory may give it a mode that locks the image's user out.
func TestNoDirectoryIsLeftToTheEngine(t *testing.T) {
	t.Parallel()
	layers, err := saved(t, newImage(t, built(t, dynamic))).Layers()
	require.NoError(t, err)
	require.Len(t, layers, 2)
	for _, l := range layers {
		content, err := l.Uncompressed()
		require.NoError(t, err)
		seen := map[string]bool{"./": true}
		for _, h := range headers(t, content) {
			assert.False(t, seen[h.Name], "%s comes twice", h.Name)
			seen[h.Name] = true
			assert.True(t, seen[path.Dir(path.Clean(h.Name))+"/"], h.Name)
		}
		require.NoError(t, content.Close())
	}
}

// Children that are started together make and send the image together.
func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	img := newImage(t, built(t, static))
	digests := make(chan v1.Hash)
	for range 8 {
		go func() {
			made, err := img.Image(t.Context())
			assert.NoError(t, err)
			d, err := made.Digest()
			assert.NoError(t, err)
			digests <- d
		}()
	}
	first := <-digests
	for range 7 {
		assert.Equal(t, first, <-digests)
	}
}

// An executable may be overwritten after its image was named and before the image is sent.
func TestAFileThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *os.File) error{
		"another byte": func(f *os.File) error { _, err := f.WriteAt([]byte{1, 2, 3, 4}, 1000); return err },
		"shorter":      func(f *os.File) error { return f.Truncate(1000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "program")
			command(t, ".", "cp", built(t, static), path)
			img := newImage(t, path)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, change(f))
			require.NoError(t, f.Close())
			assert.Regexp(t, "changed|became shorter", img.Save(t.Context(), io.Discard))
		})
	}
}

func digestOf(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	d, err := img.Digest()
	require.NoError(t, err)
	return d
}

// entries lists the files of an image.
func entries(t *testing.T, img v1.Image) []*tar.Header {
	t.Helper()
	files := mutate.Extract(img)
	defer files.Close()
	return headers(t, files)
}

func headers(t *testing.T, files io.Reader) []*tar.Header {
	t.Helper()
	var all []*tar.Header
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, h)
	}
}
