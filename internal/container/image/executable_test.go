//go:build unix

package image_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/image"
)

func TestAnExecutableForAnotherPlatform(t *testing.T) {
	t.Parallel()
	program := built(t, foreign)
	_, err := image.New(image.Options{Executable: program, Platform: here})
	require.EqualError(t, err, program+" is built for linux/"+otherArch()+", but its image has to run on "+here.String()+
		": build it with GOOS=linux GOARCH="+here.Arch+" CGO_ENABLED=0 go build -o program-"+here.Arch+
		" github.com/fiber-go/fiber/internal/container/image/testdata/empty, and set FIBER_EXECUTABLE to the path of program-"+here.Arch)

	_, err = image.New(image.Options{Executable: built(t, static), Platform: image.Platform{OS: "linux", Arch: otherArch()}})
	require.ErrorContains(t, err, "GOOS=linux GOARCH="+otherArch())

	img, err := image.New(image.Options{Executable: program, Platform: image.Platform{OS: "linux", Arch: otherArch()}})
	require.NoError(t, err)
	file, err := saved(t, img).ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, otherArch(), file.Architecture)
}

func TestAnExecutableForAnotherSystem(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"darwin", "windows", "freebsd"} {
		program, err := goBuild("for-"+system, "empty", "CGO_ENABLED=0", "GOOS="+system, "GOARCH=amd64")
		require.NoError(t, err)
		_, err = image.New(image.Options{Executable: program, Platform: here})
		assert.ErrorContains(t, err, " is built for "+system+"/amd64, but its image has to run on "+here.String())
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
		return path
	}
	object := filepath.Join(dir, "main.o")
	compile(t, dir, "-c -o main.o "+write("main.c", "int main(void) { return 0; }"))
	for path, want := range map[string]string{
		write("script", "#!/bin/sh\n"):      dir + "/script is a script: an image needs the program itself",
		write("text", "text"):               dir + "/text is not a program, and cannot be put into an image",
		write("empty", ""):                  dir + "/empty is not a program, and cannot be put into an image",
		write("cut", "\x7fELF\x02\x01\x01"): dir + "/cut is not a program, and cannot be put into an image",
		object:                              object + " is not a program",
		dir:                                 "read " + dir + ": is a directory",
		filepath.Join(dir, "none"):          "read the executable: open " + dir + "/none: no such file or directory",
	} {
		_, err := image.New(image.Options{Executable: path, Platform: here})
		assert.ErrorContains(t, err, want)
	}
}
