package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/config"
)

// sources is an environment and a directory whose .fiberconfig holds file.
func sources(t *testing.T, file string, environ ...string) config.Sources {
	t.Helper()
	dir := t.TempDir()
	if file != "" {
		write(t, filepath.Join(dir, config.FileName), file, 0o600)
	}
	return config.Sources{Environ: append([]string{}, environ...), Dir: dir}
}

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
	return path
}

func load(t *testing.T, code config.Config, from config.Sources) config.Config {
	t.Helper()
	resolved, warnings, err := config.Load(code, from)
	require.NoError(t, err)
	require.Empty(t, warnings)
	return resolved
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := config.Config{
		AllowOtherBuild:       config.Off,
		DockerNewPrivileges:   config.Off,
		DockerPidsLimit:       4096,
		RegistryInsecure:      config.Off,
		KubernetesGPUResource: "nvidia.com/gpu",
		LogLevel:              "info",
		LogFile:               "stderr",
		ForwardLogs:           config.On,
		LogPrefix:             config.On,
		HeartbeatInterval:     time.Second,
		HeartbeatTimeout:      10 * time.Second,
		StartTimeout:          10 * time.Minute,
		ShutdownGrace:         2 * time.Second,
		CancelGrace:           5 * time.Second,
		MaxMessage:            config.GiB,
		RuntimeDir:            filepath.Clean(os.TempDir()),
	}
	assert.Equal(t, want, load(t, config.Config{}, sources(t, "")))

	want.RuntimeDir = config.Config{}.WithDefaults().RuntimeDir
	assert.NotEmpty(t, want.RuntimeDir)
	assert.Equal(t, want, config.Config{}.WithDefaults())
}

func TestDefaultsOfWhatIsNotSet(t *testing.T) {
	t.Parallel()
	want := config.Config{}.WithDefaults()
	want.LogLevel, want.DockerVolumes, want.RootGPU = "debug", []string{}, 1
	given := config.Config{LogLevel: "debug", DockerVolumes: []string{}, RootGPU: 1}
	assert.Equal(t, want, given.WithDefaults())
	assert.Empty(t, given.LogFile, "it is a copy that has the defaults")
}

// sample has values for every key other than its default, one for each source.
type sample struct{ file, environ, code any }

func samples(t *testing.T) map[string]sample {
	dir := t.TempDir()
	program := func(name string) string { return write(t, filepath.Join(dir, name), "", 0o700) }
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		return path
	}
	return map[string]sample{
		"executable":              {program("p1"), program("p2"), program("p3")},
		"allow_other_build":       {config.On, config.Off, config.On},
		"log_level":               {"debug", "warn", "error"},
		"log_file":                {"stdout", filepath.Join(dir, "%p.log"), filepath.Join(dir, "log")},
		"report":                  {filepath.Join(dir, "a.html"), filepath.Join(dir, "b.html"), filepath.Join(dir, "c.html")},
		"trace":                   {filepath.Join(dir, "a.json.gz"), filepath.Join(dir, "b.json.gz"), filepath.Join(dir, "c.json.gz")},
		"dashboard":               {"127.0.0.1:0", "localhost:8080", "[::]:80"},
		"metrics":                 {":9090", "127.0.0.1:0", "[::]:80"},
		"forward_logs":            {config.Off, config.On, config.Off},
		"log_prefix":              {config.Off, config.On, config.Off},
		"heartbeat_interval":      {2 * time.Second, 3 * time.Second, 4 * time.Second},
		"heartbeat_timeout":       {20 * time.Second, 30 * time.Second, 90 * time.Second},
		"start_timeout":           {time.Minute, 2 * time.Minute, 1500 * time.Millisecond},
		"shutdown_grace":          {time.Millisecond, time.Hour, time.Minute},
		"cancel_grace":            {time.Millisecond, time.Hour, time.Minute},
		"max_message":             {512 * config.MiB, 64 * config.KiB, 3 * config.GiB},
		"share_memory":            {32 * config.MiB, 64 * config.KiB, 3 * config.GiB},
		"runtime_dir":             {folder("d1"), folder("d2"), folder("d3")},
		"backend":                 {"docker", "local", "docker"},
		"image":                   {"app:v1", "registry.example.com:5000/team/app", "app@sha256:" + strings.Repeat("0", 64)},
		"base_image":              {"debian:12", write(t, filepath.Join(dir, "base.tar"), "", 0o600), "gcr.io/distroless/base"},
		"host":                    {"10.0.0.1", "build-7.example.com", "fd00::1"},
		"docker_network":          {"team", "host", "my_net.1"},
		"docker_volumes":          {[]string{"/data:/data:ro", "cache:/var/cache"}, []string{"/a:/b"}, []string{"/c:/d", "/e:/f"}},
		"docker_capabilities":     {[]string{"CHOWN"}, []string{"NET_RAW", "SYS_PTRACE"}, []string{"ALL"}},
		"docker_new_privileges":   {config.On, config.Off, config.On},
		"docker_pids_limit":       {100, 1, 4_000_000},
		"registry":                {"registry.example.com/team", "localhost:5000", "10.0.0.1:5000/x"},
		"registry_insecure":       {config.On, config.Off, config.On},
		"kubernetes_namespace":    {"team", "team-2", "x"},
		"kubernetes_volumes":      {[]string{"data:/persistent"}, []string{"data:/data", "more:/more:ro"}, []string{"x.y:/z"}},
		"kubernetes_gpu_resource": {"amd.com/gpu", "example.com/tpu", "gpu"},
		"pod_template":            {write(t, filepath.Join(dir, "pod1.yaml"), "", 0o600), write(t, filepath.Join(dir, "pod2.yaml"), "", 0o600), write(t, filepath.Join(dir, "pod3.yaml"), "", 0o600)},
		"root_cpu":                {0.5, 2.0, 1.5},
		"root_memory":             {config.GiB, 512 * config.MiB, 300 * config.MiB},
		"root_gpu":                {1, 2, 3},
		"env":                     {[]string{"RATE=0.1"}, []string{"HF_*", "TOKEN"}, []string{"SEED"}},
	}
}

func TestCodeOverEnvironmentOverFileOverDefault(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for _, key := range config.Keys() {
		t.Run(key.Name, func(t *testing.T) {
			t.Parallel()
			given, ok := all[key.Name]
			require.True(t, ok, "a new key needs a sample")

			var code config.Config
			field(&code, key).Set(reflect.ValueOf(given.code))
			file := key.Name + " = " + text(given.file)
			environ := key.Env + "=" + text(given.environ)

			for name, step := range map[string]struct {
				code config.Config
				from config.Sources
				want any
			}{
				"file":                 {config.Config{}, sources(t, file), given.file},
				"environment":          {config.Config{}, sources(t, "", environ), given.environ},
				"environment and file": {config.Config{}, sources(t, file, environ), given.environ},
				"code":                 {code, sources(t, ""), given.code},
				"code and file":        {code, sources(t, file), given.code},
				"all":                  {code, sources(t, file, environ), given.code},
				"empty environment":    {config.Config{}, sources(t, file, key.Env+"="), given.file},
				"blank environment":    {config.Config{}, sources(t, file, key.Env+"= \t"), given.file},
			} {
				resolved := load(t, step.code, step.from)
				assert.Equal(t, step.want, field(&resolved, key).Interface(), name)
			}
		})
	}
}

func field(c *config.Config, key config.Key) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByName(key.Field)
}

func text(value any) string {
	if s, ok := value.(interface{ String() string }); ok {
		return s.String()
	}
	if list, ok := value.([]string); ok {
		return strings.Join(list, ", ")
	}
	return fmt.Sprint(value)
}

func TestEveryFieldHasAKey(t *testing.T) {
	t.Parallel()
	var fields, keys []string
	for f := range reflect.TypeFor[config.Config]().Fields() {
		if f.Name != "Logger" && f.Name != "Settings" { // the one is for code alone, and the other has keys of its own
			fields = append(fields, f.Name)
		}
	}
	for _, key := range config.Keys() {
		keys = append(keys, key.Field)
		assert.NotEmpty(t, key.Type, "%s: its kind is not in the table", key.Name)
		assert.NotEmpty(t, key.Default, key.Name)
		assert.NotEmpty(t, key.Meaning, key.Name)
	}
	assert.Equal(t, fields, keys)
}

func TestLoadingTheResultAgainChangesNothing(t *testing.T) {
	t.Parallel()
	first := load(t, config.Config{LogLevel: "DEBUG", MaxMessage: config.MiB}, sources(t, "forward_logs = no"))
	assert.Equal(t, "debug", first.LogLevel)
	assert.Equal(t, first, load(t, first, sources(t, "log_level = error", "FIBER_MAX_MESSAGE=2MiB")))
}

func TestAConfigTravelsAsMsgpack(t *testing.T) {
	t.Parallel()
	sent := load(t, config.Config{ForwardLogs: config.Off}, sources(t, "max_message = 5KiB\ndocker_volumes = /a:/b"))
	encoded, err := msgpack.Marshal(sent)
	require.NoError(t, err)
	var received config.Config
	require.NoError(t, msgpack.Unmarshal(encoded, &received))
	assert.Equal(t, sent, received)
}

func TestRelativePathsStartAtTheDirectory(t *testing.T) {
	t.Parallel()
	from := sources(t, "executable = bin/app\nlog_file = bin/%p.log\nbase_image = bin/base\n"+
		"docker_volumes = ./bin:/bin:ro, .:/work, bin:/cache, ../x:/x:rw")
	bin := filepath.Join(from.Dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	app := write(t, filepath.Join(bin, "app"), "", 0o700)
	base := write(t, filepath.Join(bin, "base"), "", 0o600)
	resolved := load(t, config.Config{RuntimeDir: "bin"}, from)
	assert.Equal(t, app, resolved.Executable)
	assert.Equal(t, filepath.Join(bin, "%p.log"), resolved.LogFile)
	assert.Equal(t, bin, resolved.RuntimeDir)
	assert.Equal(t, base, resolved.BaseImage)
	assert.Equal(t, []string{
		bin + ":/bin:ro", from.Dir + ":/work", "bin:/cache", filepath.Dir(from.Dir) + "/x:/x",
	}, resolved.DockerVolumes)
}

// If a word may be a path or a reference, an image at the path decides.
func TestABaseImageIsAPathOrAReference(t *testing.T) {
	t.Parallel()
	from := sources(t, "")
	require.NoError(t, os.Mkdir(filepath.Join(from.Dir, "debian"), 0o700))
	layout := filepath.Join(from.Dir, "layout")
	require.NoError(t, os.Mkdir(layout, 0o700))
	write(t, filepath.Join(layout, "oci-layout"), "{}", 0o600)
	file := write(t, filepath.Join(from.Dir, "saved"), "", 0o600)
	for given, want := range map[string]string{
		"debian": "debian", "layout": layout, "./layout": layout, "saved": file, "other": "other",
	} {
		assert.Equal(t, want, load(t, config.Config{BaseImage: given}, from).BaseImage)
	}
}

// Code can turn off what the environment or the file asks for.
func TestAnEmptyListIsAValue(t *testing.T) {
	t.Parallel()
	from := sources(t, "docker_volumes = /a:/b", "FIBER_DOCKER_VOLUMES=/c:/d")
	assert.Empty(t, load(t, config.Config{DockerVolumes: []string{}}, from).DockerVolumes)
}

func TestRuntimeDirDefaultsToTheSession(t *testing.T) {
	t.Parallel()
	session := t.TempDir()
	for name, value := range map[string]struct{ xdg, want string }{
		"usable":   {session, session},
		"missing":  {filepath.Join(session, "none"), filepath.Clean(os.TempDir())},
		"relative": {"session", filepath.Clean(os.TempDir())},
		"empty":    {"", filepath.Clean(os.TempDir())},
		"a file":   {write(t, filepath.Join(session, "file"), "", 0o600), filepath.Clean(os.TempDir())},
	} {
		resolved := load(t, config.Config{}, sources(t, "", "XDG_RUNTIME_DIR="+value.xdg))
		assert.Equal(t, value.want, resolved.RuntimeDir, name)
	}
}

// Nothing is made in the working directory, not even for a moment.
func TestNoRuntimeDirIsTriedInTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, xdg := range []string{"", "."} {
		before := time.Unix(1e9, 0)
		require.NoError(t, os.Chtimes(dir, before, before))
		load(t, config.Config{}, sources(t, "", "XDG_RUNTIME_DIR="+xdg))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.True(t, info.ModTime().Equal(before), "XDG_RUNTIME_DIR=%s", xdg)
	}
}

func TestTheZeroSourcesAreThisProcess(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, config.FileName, "log_level = warn\nshutdown_grace = 3s\n", 0o600)
	t.Setenv("FIBER_LOG_LEVEL", "debug")
	resolved, _, err := config.Load(config.Config{}, config.Sources{})
	require.NoError(t, err)
	assert.Equal(t, "debug", resolved.LogLevel)
	assert.Equal(t, 3*time.Second, resolved.ShutdownGrace)
}

func TestTheUsualTemporaryDirectoryIsCheckedToo(t *testing.T) {
	t.Setenv("TMPDIR", "/does/not/exist")
	_, _, err := config.Load(config.Config{}, config.Sources{Environ: []string{}, Dir: "/"})
	assert.EqualError(t, err, `default: runtime_dir = "/does/not/exist" is not the path of a directory that exists and is writable`)
}

// A default is the same whatever the environment says: what the environment sets is part of Environ.
func TestWhatTheEnvironmentSetsIsNoDefault(t *testing.T) {
	all, file := samples(t), sources(t, "")
	file.Environ = nil // this process's
	before := config.Config{}.WithDefaults()
	var want []string
	for _, key := range config.Keys() {
		value := text(all[key.Name].file)
		t.Setenv(key.Env, value)
		want = append(want, key.Env+"="+strings.ReplaceAll(value, ", ", ","))
	}
	assert.Equal(t, before, config.Config{}.WithDefaults())
	assert.Equal(t, want, config.Environ(load(t, config.Config{}, file)))
}

// The code of a program that has been moved does not count, and that of programs which it starts does.
func TestAProgramIsMovedOnce(t *testing.T) {
	assert.False(t, config.Moved())
	t.Setenv(config.MovedKey, "yes")
	assert.True(t, config.Moved())
	assert.False(t, config.Moved())
}

func TestEnvironIsWhatIsNotTheDefault(t *testing.T) {
	t.Parallel()
	resolved := load(t, config.Config{RootCPU: 1.5, Env: []string{"RATE=0.1", "HF_*"}},
		sources(t, "log_level = debug\nhost = 10.0.0.1\n", "FIBER_FORWARD_LOGS=no"))
	environ := config.Environ(resolved, "host", "runtime_dir")
	assert.Equal(t, []string{"FIBER_ENV=RATE=0.1,HF_*", "FIBER_ROOT_CPU=1.5", "FIBER_LOG_LEVEL=debug", "FIBER_FORWARD_LOGS=off"}, environ)
	again, warnings, err := config.Load(config.Config{}, config.Sources{Environ: environ, Dir: t.TempDir()})
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, resolved.Env, again.Env)
}

// Fiber's own settings are fields of Config.
func TestOwnSettingAmongThoseOfPlugins(t *testing.T) {
	t.Parallel()
	for key, text := range map[string]string{"log_level": "log_level is a setting of Fiber's own: set its field of Config", "no_such": "no_such is not a setting of a plugin"} {
		_, _, err := config.Load(config.Config{Settings: map[string]string{key: "debug"}}, sources(t, ""))
		require.ErrorContains(t, err, text)
	}
}
