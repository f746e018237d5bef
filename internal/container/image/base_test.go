//go:build unix

package image_test

import (
	"archive/tar"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	blob "github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/image"
)

// newBase returns an image with the file /etc/hello and settings of its own.
func newBase(t *testing.T, arch, hello string) v1.Image {
	t.Helper()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "etc/hello", Mode: 0o644, Size: int64(len(hello))}))
	_, err := w.Write([]byte(hello))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	img, err := mutate.AppendLayers(empty.Image, blob.NewLayer(content.Bytes(), types.DockerUncompressedLayer))
	require.NoError(t, err)
	file, err := img.ConfigFile()
	require.NoError(t, err)
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{
		Env: []string{"HELLO=" + hello}, WorkingDir: "/work", User: "someone",
		Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c"},
	}
	img, err = mutate.ConfigFile(img, file)
	require.NoError(t, err)
	return img
}

// bothPlatforms returns an index of a base for this machine and one for another CPU.
func bothPlatforms(t *testing.T, hello string) v1.ImageIndex {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, arch := range []string{otherArch(), here.Arch} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        newBase(t, arch, hello+" on "+arch),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index
}

func onBase(t *testing.T, ref string) *image.Image {
	t.Helper()
	base, err := image.FindBase(t.Context(), ref, here)
	require.NoError(t, err)
	img, err := image.New(image.Options{Executable: built(t, dynamic), Platform: here, Base: base})
	require.NoError(t, err)
	return img
}

// checkOnBase checks that only the program was added, and all else is the base's.
func checkOnBase(t *testing.T, img v1.Image, hello string) {
	t.Helper()
	var names []string
	for _, h := range entries(t, img) {
		names = append(names, h.Name)
	}
	assert.ElementsMatch(t, []string{"etc/hello", "fiber", "fiber/program"}, names)
	config := configOf(t, img)
	assert.Equal(t, v1.Config{
		Env: []string{"HELLO=" + hello}, WorkingDir: "/work", User: "someone",
		Entrypoint: []string{image.Path}, Labels: map[string]string{image.Label: "dynamic"},
	}, config)
}

func TestABaseFromARegistry(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	ref, err := name.ParseReference(reg.host() + "/base:v1")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, bothPlatforms(t, "one")))
	first := onBase(t, ref.String())
	checkOnBase(t, saved(t, first), "one on "+here.Arch)
	assert.Equal(t, first.Name(), onBase(t, ref.String()).Name())

	// The tag now leads to another image.
	require.NoError(t, remote.WriteIndex(ref, bothPlatforms(t, "two")))
	second := onBase(t, ref.String())
	assert.NotEqual(t, first.Name(), second.Name())
	checkOnBase(t, saved(t, second), "two on "+here.Arch)
	checkOnBase(t, saved(t, first), "one on "+here.Arch)

	pushed, err := second.Push(t.Context(), reg.host(), image.Pushing{})
	require.NoError(t, err)
	checkOnBase(t, pull(t, pushed), "two on "+here.Arch)
}

// Naming an image does not need the base itself, and no registry either if the reference has the digest.
func TestNamingNeedsNoBase(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	ref, err := name.ParseReference(reg.host() + "/base:v1")
	require.NoError(t, err)
	base := newBase(t, here.Arch, "hello")
	require.NoError(t, remote.Write(ref, base))
	byDigest := ref.Context().Digest(digestOf(t, base).String()).String()

	before := reg.requests[http.MethodGet]
	img := onBase(t, ref.String())
	assert.Equal(t, before+1, reg.requests[http.MethodGet], "the version of the registry's API")
	assert.Equal(t, img.Name(), onBase(t, byDigest).Name())
	assert.Equal(t, before+1, reg.requests[http.MethodGet])
	checkOnBase(t, saved(t, img), "hello")
}

func TestABaseInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "base.tar")
	tag, err := name.NewTag("base:v1")
	require.NoError(t, err)
	require.NoError(t, tarball.WriteToFile(path, tag, newBase(t, here.Arch, "hello")))
	checkOnBase(t, saved(t, onBase(t, path)), "hello")
}

func TestABaseInADirectory(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]v1.ImageIndex{
		"two platforms": bothPlatforms(t, "hello"),
		"an index":      mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: bothPlatforms(t, "hello")}),
		"one image": mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
			Add: mutate.MediaType(newBase(t, here.Arch, "hello on "+here.Arch), types.OCIManifestSchema1),
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := layout.Write(dir, index)
			require.NoError(t, err)
			checkOnBase(t, saved(t, onBase(t, dir)), "hello on "+here.Arch)
		})
	}
}

// The layers of an OCI image are OCI layers.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[types.MediaType]types.MediaType{
		types.DockerManifestSchema2: types.DockerLayer, types.OCIManifestSchema1: types.OCILayer,
	} {
		reg := newRegistry(t)
		ref, err := name.ParseReference(reg.host() + "/base:v1")
		require.NoError(t, err)
		require.NoError(t, remote.Write(ref, mutate.MediaType(newBase(t, here.Arch, "hello"), kind)))
		pushed, err := onBase(t, ref.String()).Push(t.Context(), reg.host(), image.Pushing{})
		require.NoError(t, err)
		manifest, err := pull(t, pushed).Manifest()
		require.NoError(t, err)
		assert.Equal(t, kind, manifest.MediaType)
		assert.Equal(t, want, manifest.Layers[1].MediaType)
	}
}

func TestABaseThatCannotBe(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "base.tar")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o600))
	foreignDir := t.TempDir()
	_, err := layout.Write(foreignDir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        newBase(t, otherArch(), "hello"),
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: otherArch()}},
	}))
	require.NoError(t, err)
	for ref, want := range map[string]string{
		reg.host() + "/none:v1": "base image " + reg.host() + "/none:v1: GET " + reg.URL + "/v2/none/manifests/v1: NAME_UNKNOWN: Unknown name",
		"127.0.0.1:1/base":      "connection refused",
		text:                    "base image " + text + ": ",
		dir:                     "base image " + dir + ": ",
		dir + "/none":           "base image " + dir + "/none: stat " + dir + "/none: no such file or directory",
		foreignDir:              "base image " + foreignDir + ": has no image for " + here.String(),
		"Base":                  "base image Base: could not parse reference: Base",
	} {
		_, err := image.FindBase(t.Context(), ref, here)
		assert.ErrorContains(t, err, want, ref)
	}
}

func TestABaseForAnotherPlatform(t *testing.T) {
	t.Parallel()
	reg := newRegistry(t)
	ref, err := name.ParseReference(reg.host() + "/base:v1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, newBase(t, otherArch(), "hello")))
	_, err = onBase(t, ref.String()).Image(t.Context())
	require.EqualError(t, err, "the base image is for linux/"+otherArch()+", but the program has to run on "+here.String())
}
