package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
)

func TestAWrongValueNamesKeySourceAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for key, wrong := range map[string]struct {
		allowed string
		values  []string
	}{
		"backend":      {"docker, inline, kubernetes or local", []string{"slurm"}},
		"log_level":    {"debug, info, warn or error", []string{"loud", "10"}},
		"forward_logs": {"on, true, yes or 1; off, false, no or 0 (in code: On or Off)", []string{"maybe", "2", "unset"}},
		"heartbeat_timeout": {"a duration of at least 1ms, such as 500ms, 10s or 1m30s",
			[]string{"10", "-1.5", "10 s", "1d", "soon", "-10s", "0", "0s", "10us", "99999999h"}},
		"max_message": {"a whole number of B, KiB, MiB or GiB, at least 4KiB, such as 512MiB",
			[]string{"512", "512MB", "1.5GiB", "GiB", "big", "0GiB", "-1GiB", "1B", "9999999999GiB", "-9999999999GiB", "99999999999999999999B"}},
		"executable": {"the path of an executable file", []string{"/does/not/exist", "/dev/null/app", os.TempDir()}},
		"image":      {"an image's name, such as debian:12 or registry.example.com/team/app:v1", []string{"Debian", "debian: 12"}},
		"base_image": {"an image's name, such as debian:12, or the path of an image: a file (docker save) or a directory (an OCI layout)",
			[]string{"Debian", "./none", "none.tar", "/dev/null", "/dev/null/x", os.TempDir()}},
		"registry": {"a registry, with a path or without: registry.example.com/team or localhost:5000",
			[]string{"http://localhost:5000", "Team", "a b"}},
		"host": {"an IP address that can be dialled or the name of a host, without a port",
			[]string{"10.0.0.1:80", "[::1]:80", "0.0.0.0", "::", "10.0.0.256", "http://a", "-a", "two words", "[fd00::1]", "a..b.example"}},
		"dashboard": {"an address of this machine and a port, such as 127.0.0.1:8080, or 127.0.0.1:0 for any free port",
			[]string{"on", "8080", ":8080", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "http://127.0.0.1:0", "::1:80", "10.0.0.256:80"}},
		"metrics": {"an address of this machine and a port, such as 127.0.0.1:9090, or :9090 for all of its addresses",
			[]string{"on", "9090", ":", ":http", ":65536", "http://:9090", "127.0.0.1", "10.0.0.256:80"}},
		"docker_network": {"the name of a network other than none", []string{"none", "a net", "-net"}},
		"docker_volumes": {"a list of host:container or host:container:ro, separated by commas; host is a path, which starts " +
			"with / or ., or the name of a volume, container an absolute path, not the same twice",
			[]string{"/data", ":/data", "/a:/b:ro:rw", "/a:/b,", "/a:/b,/c:/d:wr", "~/data:/data", ".hidden:/data", "/data:data", "/data:/", "/a:/x,/b:/y/../x"}},
		"docker_capabilities": {"a list of Linux capabilities, such as DAC_OVERRIDE, separated by commas; or ALL",
			[]string{"CHOWN,", "drop all", "CHOWN;SETUID", "CAP_"}},
		"docker_pids_limit":    {"a whole number of processes and threads, at least 1", []string{"many", "0", "-1", "1.5"}},
		"root_cpu":             {"a number of CPUs, such as 2 or 0.5", []string{"NaN", "-1", "0", "two"}},
		"root_gpu":             {"a whole number of GPUs, such as 1", []string{"-1", "0.5"}},
		"env":                  {"a list of NAME, PREFIX_*, NAME=value or *, separated by commas", []string{"A,", "=x", "1A", "A B", "A*B"}},
		"kubernetes_namespace": {"the name of a namespace: small letters, digits and -, at most 63", []string{"My-Team", "a.b"}},
		"kubernetes_volumes": {"a list of claim, claim:path or claim:path:ro, separated by commas; claim is the name of a " +
			"PersistentVolumeClaim, path an absolute one, not the same twice, /persistent unless it is given",
			[]string{"Data", "data:x", "data:/", "data:/x:wr", "a,b", "a:/x,,b:/y/.."}},
		"kubernetes_gpu_resource": {"the name of a resource that nodes have, such as nvidia.com/gpu or amd.com/gpu", []string{"two words"}},
		"pod_template":            {"the path of a file with a pod in YAML", []string{"/does/not/exist", os.TempDir()}},
		"log_file": {`stderr, stdout, or the path of a file in a directory that exists, with "%p" in the file's name only`,
			[]string{"/does/not/exist/log", os.TempDir(), "/tmp/%p/log"}},
	} {
		for _, value := range wrong.values {
			t.Run(key+"="+value, func(t *testing.T) {
				t.Parallel()
				want := ": " + key + ` = "` + value + `" is not ` + wrong.allowed
				from := sources(t, "\n"+key+" = "+value)
				_, _, err := config.Load(config.Config{}, from)
				require.EqualError(t, err, from.Dir+"/.fiberconfig:2"+want)

				name := environ(key)
				_, _, err = config.Load(config.Config{}, sources(t, "", name+"="+value))
				require.EqualError(t, err, "environment variable "+name+want)
			})
		}
	}
}

func environ(key string) string {
	for _, k := range config.Keys() {
		if k.Name == key {
			return k.Env
		}
	}
	return ""
}

func TestWrongInCode(t *testing.T) {
	t.Parallel()
	for want, code := range map[string]config.Config{
		`code, Config.HeartbeatTimeout: heartbeat_timeout = "10ns" is not a duration of at least 1ms`:    {HeartbeatTimeout: 10},
		`code, Config.CancelGrace: cancel_grace = "-1s" is not a duration of at least 1ms`:               {CancelGrace: -time.Second},
		`code, Config.MaxMessage: max_message = "1B" is not a whole number of B, KiB`:                    {MaxMessage: 1},
		`code, Config.MaxMessage: max_message = "-1KiB" is not a whole number of B, KiB`:                 {MaxMessage: -config.KiB},
		`code, Config.ForwardLogs: forward_logs = "invalid" is not on, true, yes or 1`:                   {ForwardLogs: 2},
		`code, Config.Backend: backend = "cloud" is not docker, inline, kubernetes or local`:             {Backend: "cloud"},
		`code, Config.Executable: executable = "/a\x00b" is not the path of an executable file`:          {Executable: "/a\x00b"},
		`code, Config.RuntimeDir: runtime_dir = "/does/not/exist" is not the path of a directory`:        {RuntimeDir: "/does/not/exist"},
		`code, Config.RuntimeDir: runtime_dir = "/dev/null" is not the path of a directory`:              {RuntimeDir: "/dev/null"},
		`code, Config.DockerVolumes: docker_volumes = "/a:/b,c" is not a list of host:container`:         {DockerVolumes: []string{"/a:/b", "c"}},
		`code, Config.Host: host = "a:1" is not an IP address that can be dialled or the name of a host`: {Host: "a:1"},
		`default: heartbeat_timeout = "10s" is not longer than the 10s of heartbeat_interval ` +
			`(code, Config.HeartbeatInterval)`: {HeartbeatInterval: 10 * time.Second},
	} {
		_, _, err := config.Load(code, sources(t, ""))
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatMustBeExecutable(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "notes.txt"), "", 0o600)
	_, _, err := config.Load(config.Config{Executable: path}, sources(t, ""))
	assert.ErrorContains(t, err, "is not the path of an executable file")
}

func TestEveryFaultIsReported(t *testing.T) {
	t.Parallel()
	from := sources(t, "log_level = loud\nnonsense\n", "FIBER_MAX_MESSAGE=1", "FIBER_FORWARD_LOGS=perhaps")
	_, _, err := config.Load(config.Config{CancelGrace: 5}, from)
	for _, part := range []string{":1: log_level", ":2: ", "FIBER_MAX_MESSAGE", "FIBER_FORWARD_LOGS", "Config.CancelGrace"} {
		assert.ErrorContains(t, err, part)
	}
}

// A program that sets a value in code does not depend on what the machine's other sources say.
func TestAnOverriddenValueIsNotChecked(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	from := sources(t, "executable = not/built/yet\nheartbeat_timeout = 500ms", "FIBER_HEARTBEAT_TIMEOUT=5s", "FIBER_LOG_LEVEL=loud")
	assert.Equal(t, self, load(t, config.Config{Executable: self, LogLevel: "info"}, from).Executable)
}
