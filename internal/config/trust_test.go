//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/config"
)

// A file that somebody else may have written is not read, unless FIBER_CONFIG names it.
func TestWhoMayHaveWrittenTheFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		owner     int // who also is the directory's
		file, dir os.FileMode
		refused   string
		warned    string
	}{
		"mine":                   {os.Geteuid(), 0o644, 0o755, "", ""},
		"in a directory as /tmp": {os.Geteuid(), 0o644, 0o777 | os.ModeSticky, "", ""},
		"anybody's":              {os.Geteuid(), 0o646, 0o755, `has mode -rw-r--rw-, and is not read: anybody may write it`, ""},
		"anybody's to replace":   {os.Geteuid(), 0o644, 0o777, `and is not read: anybody may replace it, since .* has mode drwxrwxrwx`, ""},
		"its group's":            {os.Geteuid(), 0o664, 0o755, "", `has mode -rw-rw-r--: its group may write it$`},
		"a stranger's":           {54321, 0o644, 0o755, `it belongs to the user 54321 and has mode -rw-r--r--, and is not read: its owner is neither this user nor root`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, config.FileName), "max_message = 1MiB", test.file)
			if test.owner != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			require.NoError(t, os.Chown(path, test.owner, -1))
			require.NoError(t, os.Chmod(path, test.file))
			require.NoError(t, os.Chmod(dir, test.dir))
			read, warnings, err := config.Load(config.Config{}, config.Sources{Environ: []string{}, Dir: dir})
			if test.refused != "" {
				require.Error(t, err)
				assert.Regexp(t, `^`+path+`: .*`+test.refused+`; if you trust it, set FIBER_CONFIG=`+path+`$`, err.Error())
			} else {
				require.NoError(t, err)
				assert.Equal(t, config.MiB, read.MaxMessage)
			}
			if test.warned != "" {
				require.Len(t, warnings, 1)
				assert.Regexp(t, `^`+path+`: it belongs to .* and `+test.warned, warnings[0])
			} else {
				assert.Empty(t, warnings)
			}
			read = load(t, config.Config{}, config.Sources{Environ: []string{"FIBER_CONFIG=" + path}, Dir: t.TempDir()})
			assert.Equal(t, config.MiB, read.MaxMessage)
		})
	}
}

// Nobody waits for a writer of a pipe that lies where the file is looked for.
func TestPipeInThePlaceOfTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, config.FileName), 0o600))
	load(t, config.Config{}, config.Sources{Environ: []string{}, Dir: dir})
}

// FIBER_CONFIG takes the place of the file in the working directory, and has to be there.
func TestNamedFile(t *testing.T) {
	t.Parallel()
	from := sources(t, "log_level = debug", "FIBER_CONFIG=other")
	_, _, err := config.Load(config.Config{}, from)
	assert.EqualError(t, err, "other: can't be read: open "+from.Dir+"/other: no such file or directory")
	write(t, filepath.Join(from.Dir, "other"), "max_message = 1MiB", 0o600)
	read := load(t, config.Config{}, from)
	assert.Equal(t, config.MiB, read.MaxMessage)
	assert.Equal(t, "info", read.LogLevel)
}
