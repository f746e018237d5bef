//go:build unix

package image_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/image"
)

// chain builds, below dir, a program in C that needs libone.so, in lib, which needs libtwo.so, in lib/more. The flags of the
// linker findOne and findTwo say how the two are found.
func chain(t *testing.T, dir, findOne, findTwo string) (program string) {
	t.Helper()
	for name, text := range map[string]string{
		"two.c":  "int two(void) { return 2; }",
		"one.c":  "int two(void); int one(void) { return two() - 1; }",
		"main.c": "#include <stdio.h>\nint one(void); int main(void) { return printf(\"one is %d\\n\", one()) < 0; }",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	more := filepath.Join(dir, "lib", "more")
	require.NoError(t, os.MkdirAll(more, 0o755))
	compile(t, dir, "-shared -fPIC -Wl,-soname,libtwo.so.2 -o lib/more/libtwo.so.2.0 two.c")
	require.NoError(t, os.Symlink("libtwo.so.2.0", filepath.Join(more, "libtwo.so.2")))
	compile(t, dir, "-shared -fPIC -o lib/libone.so one.c lib/more/libtwo.so.2 "+findTwo)
	compile(t, dir, "-o chain main.c -Llib -lone -Wl,-rpath-link,lib/more "+findOne)
	return filepath.Join(dir, "chain")
}

func compile(t *testing.T, dir, args string) {
	t.Helper()
	command(t, dir, "gcc", strings.Fields(args)...)
}

func TestLibrariesOfLibraries(t *testing.T) {
	t.Parallel()
	const runpath, rpath = "-Wl,--enable-new-dtags,-rpath,", "-Wl,--disable-new-dtags,-rpath,"
	for name, find := range map[string]struct{ one, two string }{
		"RUNPATH":             {runpath + "$ORIGIN/lib", runpath + "${ORIGIN}/more"},
		"RPATH":               {rpath + "$ORIGIN/lib:$ORIGIN/lib/more", ""},
		"RPATH and RUNPATH":   {rpath + "$ORIGIN/lib", runpath + "$ORIGIN/more"},
		"no such directories": {runpath + "/none:$ORIGIN/lib", rpath + "none:$ORIGIN/more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := chain(t, t.TempDir(), find.one, find.two)
			assert.Equal(t, "one is 1\n", run(t, newImage(t, program)))
		})
	}
}

// A link to the program is in another directory than the libraries of the program.
func TestAProgramThatIsALink(t *testing.T) {
	t.Parallel()
	program := chain(t, t.TempDir(), "-Wl,-rpath,$ORIGIN/lib", "-Wl,-rpath,$ORIGIN/more")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(program, link))
	assert.Equal(t, "one is 1\n", run(t, newImage(t, link)))
}

// A RUNPATH applies to its owner alone: the loader itself would not find libtwo.so through it either.
func TestALibraryIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := chain(t, dir, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib:$ORIGIN/lib/more", "")
	_, err := image.New(image.Options{Executable: program, Platform: here})
	const says = ": error while loading shared libraries: %s: cannot open shared object file: No such file or directory: " +
		"install it, build the program with CGO_ENABLED=0, or set FIBER_BASE_IMAGE to an image that has it"
	require.EqualError(t, err, program+fmt.Sprintf(says, "libtwo.so.2"))

	require.NoError(t, os.Remove(filepath.Join(dir, "lib", "libone.so")))
	_, err = image.New(image.Options{Executable: program, Platform: here})
	require.EqualError(t, err, program+fmt.Sprintf(says, "libone.so"))
}

// A base image brings its own libraries.
func TestNoLibrariesOnABase(t *testing.T) {
	t.Parallel()
	program := chain(t, t.TempDir(), "", "")
	_, err := image.New(image.Options{Executable: program, Platform: here, Base: &image.Base{ID: "some"}})
	require.NoError(t, err)
}

func TestLibrariesThatTheEnvironmentLeadsTo(t *testing.T) {
	dir := t.TempDir()
	program := chain(t, dir, "", "")
	t.Chdir(filepath.Join(dir, "lib"))
	for _, search := range []string{dir + "/lib:" + dir + "/lib/more", "../lib:./more", ":more"} {
		t.Setenv("LD_LIBRARY_PATH", search)
		assert.Equal(t, "one is 1\n", run(t, newImage(t, program)), search)
	}
}

// The loader does not search for a library that was linked by a relative path.
func TestALibraryByARelativePath(t *testing.T) {
	dir := t.TempDir()
	program := chain(t, dir, "", "-Wl,-rpath,$ORIGIN/more")
	compile(t, dir, "-o chain main.c lib/libone.so")
	t.Chdir(dir)
	_, err := image.New(image.Options{Executable: program, Platform: here})
	require.EqualError(t, err, program+" is linked with lib/libone.so, which depends on the working directory: "+
		"link it with a library's name or absolute path")
}

// A file of the right name that is for another CPU does not count.
func TestWhatIsNoLibraryIsPassedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := chain(t, dir, "-Wl,-rpath,$ORIGIN/foreign:$ORIGIN/lib", "-Wl,-rpath,$ORIGIN/more")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "foreign"), 0o755))
	command(t, ".", "cp", built(t, foreign), filepath.Join(dir, "foreign", "libone.so"))
	assert.Equal(t, "one is 1\n", run(t, newImage(t, program)))
}
