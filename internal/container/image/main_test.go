//go:build unix

package image_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/internal/container/image"
)

// scratch is a directory for the programs that several tests share.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

var here = image.Platform{OS: "linux", Arch: runtime.GOARCH}

// static and dynamic are testdata/system, built without and with cgo, and foreign is a program for another CPU.
var (
	static  = sync.OnceValues(func() (string, error) { return goBuild("static", "system", "CGO_ENABLED=0") })
	dynamic = sync.OnceValues(func() (string, error) { return goBuild("dynamic", "system", "CGO_ENABLED=1") })
	foreign = sync.OnceValues(func() (string, error) {
		return goBuild("foreign", "empty", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+otherArch())
	})
)

func otherArch() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

func goBuild(name, source string, env ...string) (string, error) {
	path := filepath.Join(scratch, name)
	cmd := exec.Command("go", "build", "-o", path, "./testdata/"+source)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
}

func built(t *testing.T, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	return path
}

// command runs a command in a directory and returns its output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// newImage returns an image of the program at path, without a base, for this machine.
func newImage(t *testing.T, path string) *image.Image {
	t.Helper()
	img, err := image.New(image.Options{Executable: path, Platform: here})
	require.NoError(t, err)
	return img
}

// saved writes img to a file and reads it back.
func saved(t *testing.T, img *image.Image) v1.Image {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, img.Save(t.Context(), &file))
	read, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }, nil)
	require.NoError(t, err)
	return read
}

// unpack writes the content of the image to a directory. Another process writes the files: otherwise a child that this one
// forks meanwhile would have a program open for writing, and the program could not be run.
func unpack(t *testing.T, img v1.Image) (root string) {
	t.Helper()
	root = t.TempDir()
	files := mutate.Extract(img)
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-p", "--numeric-owner", "-C", root)
	cmd.Stdin = files
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, files.Close())
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc", "hosts"), []byte("127.0.0.1 localhost\n"), 0o644))
	return root
}

// run runs an image as an engine does, as far as the user who runs the tests may: root changes the root directory; other
// users run the image's loader with the image's libraries.
func run(t *testing.T, img *image.Image, env ...string) string {
	t.Helper()
	config := configOf(t, saved(t, img))
	root := unpack(t, saved(t, img))
	cmd := exec.CommandContext(t.Context(), config.Entrypoint[0])
	cmd.Env = append(config.Env, env...)
	if os.Geteuid() == 0 {
		cmd.Dir = config.WorkingDir
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: true},
		}
		require.Equal(t, "65532:65532", config.User)
	} else {
		cmd.Path = filepath.Join(root, config.Entrypoint[0])
		if loaders, err := filepath.Glob(filepath.Join(root, "lib*", "ld-*")); err == nil && len(loaders) == 1 {
			libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib*", "*"))
			require.NoError(t, err)
			cmd.Args = []string{loaders[0], "--library-path", strings.Join(libraries, ":"), cmd.Path}
			cmd.Path = loaders[0]
		}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func configOf(t *testing.T, img v1.Image) v1.Config {
	t.Helper()
	file, err := img.ConfigFile()
	require.NoError(t, err)
	return file.Config
}

// certificate is an arbitrary certificate, whose key is lost.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUDOmpJr+jb1V+rKVRBQ0Lb4UtK8swCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjExMzQyMDdaGA8yMTI2MTAyODEzNDIw
N1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMhy
PECDbk3aiMekOZkkq83k9BJDdswyDtkvaYBxHpTt+vBjvJJtTb3whDPPbH7+asVa
dUhkJdpOVne0aKe/fuujUzBRMB0GA1UdDgQWBBScBOCnhui/XdxsH/Ta5vsJJk/P
8jAfBgNVHSMEGDAWgBScBOCnhui/XdxsH/Ta5vsJJk/P8jAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQDdC0z1sta3N32fADguUShYjVf8Bu3ruzj8
kczypY9PRgIhAIAO9Giq4VLrd1GQwY2BawBe/aoP5VHBGHVy9LSbfEfW
-----END CERTIFICATE-----
`
