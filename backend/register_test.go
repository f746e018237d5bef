package backend_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
)

func init() {
	backend.Register(backend.Plugin{Name: "toy", Make: func(backend.Options) (backend.Backend, error) { return nil, nil },
		Settings: []backend.Setting{
			{Key: "toy_color", Meaning: "The toy's colour.", Default: "red", Allowed: "red or blue", Fits: func(s string) bool { return s == "red" || s == "blue" }},
			{Key: "toy_name", Meaning: "The toy's name."},
		}})
}

func TestPluginsSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code          map[string]string
		environ, file string
		color, err    string
	}{
		{color: "red"},
		{file: "toy_color = blue\n", color: "blue"},
		{environ: "FIBER_TOY_COLOR=blue", file: "toy_color = red\n", color: "blue"},
		{code: map[string]string{"toy_color": "blue"}, environ: "FIBER_TOY_COLOR=red", color: "blue"},
		{environ: "FIBER_TOY_COLOR=green", err: `environment variable FIBER_TOY_COLOR: toy_color = "green" is not red or blue`},
		{file: "toy_color = green\n", err: `.fiberconfig:1: toy_color = "green" is not red or blue`},
		{file: "toy_colour = blue\n", err: "did you mean toy_color?"},
		{code: map[string]string{"toy_nmae": "x"}, err: "code, Config.Settings: toy_nmae is not a setting of a plugin that this program has; did you mean toy_name?"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(test.file), 0o600))
		c, warnings, err := config.Load(config.Config{Settings: test.code, Backend: "toy"}, config.Sources{Environ: []string{test.environ}, Dir: dir})
		require.Empty(t, warnings)
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.color, c.Text("toy_color"))
		assert.Equal(t, c, config.Of(c.Text), "what a plugin reads is the whole")
		again, _, err := config.Load(c, config.Sources{Dir: t.TempDir(), Environ: []string{}})
		require.NoError(t, err)
		assert.Equal(t, c, again)
	}
}

// A command that runs other programs does not know their plugins.
func TestPluginsOfOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ environ, file, err string }{
		{file: "backend = slurm\nslurm_partition = batch\n", environ: "FIBER_SLURM_QOS=high"},
		{file: "log_levle = debug\n", err: "did you mean log_level?"},
		{file: "nosuch = x\n", err: "nosuch is not a known key"},
		{file: "backend = Slurm!\n", err: "is not"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(test.file), 0o600))
		c, warnings, err := config.Load(config.Config{}, config.Sources{Environ: []string{test.environ}, Dir: dir, Others: true})
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, "slurm", c.Backend)
		require.Equal(t, map[string]string{"slurm_partition": "batch", "slurm_qos": "high", "toy_color": "red"}, c.Settings)
	}
}

func TestPluginsThatCanNotBe(t *testing.T) {
	t.Parallel()
	make := func(backend.Options) (backend.Backend, error) { return nil, nil }
	for want, p := range map[string]backend.Plugin{
		"a plugin needs a name of small letters and digits, and Make: \"\"":      {Make: make},
		"a plugin needs a name of small letters and digits, and Make: \"other\"": {Name: "other"},
		"there are two plugins toy":                                         {Name: "toy", Make: make},
		"\"color\" is not other_ and a word of small letters, digits and _": {Name: "other", Make: make, Settings: []backend.Setting{{Key: "color"}}},
	} {
		require.PanicsWithValue(t, "backend: Register: "+want, func() { backend.Register(p) })
	}
}
