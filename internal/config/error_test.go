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
	const (
		durations = "; allowed: a duration of at least 1ms, such as 500ms, 10s or 1m30s"
		sizes     = "; allowed: a whole number of B, KiB, MiB or GiB, at least 4KiB, such as 512MiB"
		booleans  = "; allowed: on, true, yes or 1; off, false, no or 0 (in code: On or Off)"
		levels    = "; allowed: debug, info, warn or error"
		programs  = "; allowed: the path of an executable file"
		logs      = `; allowed: stderr, stdout, or the path of a file in a directory that exists, with "%p" in the file's name only`
		images    = "; allowed: an image's name, such as debian:12 or registry.example.com/team/app:v1"
		bases     = "; allowed: an image's name, such as debian:12, or the path of an image: a file (docker save) or a directory (an OCI layout)"
		hosts     = "; allowed: an IP address or the name of a host, without a port"
		networks  = "; allowed: the name of a network other than none"
		volumes   = "; allowed: host:container or host:container:ro, several separated by commas; " +
			"host is a path or the name of a volume, container an absolute path"
		capabilities = "; allowed: names of Linux capabilities, such as DAC_OVERRIDE, several separated by commas; or ALL"
		claims       = "; allowed: claim, claim:path or claim:path:ro, several separated by commas; " +
			"claim is the name of a PersistentVolumeClaim, path an absolute one, /persistent unless it is given"
	)
	for key, values := range map[string]map[string]string{
		"backend": {
			"slurm": "is not known; allowed: local, docker or kubernetes",
		},
		"log_level": {
			"loud": "is not known" + levels,
			"10":   "is not known" + levels,
		},
		"forward_logs": {
			"maybe": "is neither yes nor no" + booleans,
			"2":     "is neither yes nor no" + booleans,
			"unset": "is neither yes nor no" + booleans,
		},
		"heartbeat_timeout": {
			"10":        `has no unit, write "10s"` + durations,
			"-1.5":      `has no unit, write "-1.5s"` + durations,
			"10 s":      "is not a duration" + durations,
			"1d":        "is not a duration" + durations,
			"soon":      "is not a duration" + durations,
			"-10s":      "is too short" + durations,
			"0":         "is too short" + durations,
			"0s":        "is too short" + durations,
			"10us":      "is too short" + durations,
			"99999999h": "is not a duration" + durations,
		},
		"max_message": {
			"512":                   `has no unit, write "512MiB"` + sizes,
			"512MB":                 `has the unknown unit "MB"` + sizes,
			"1.5GiB":                "is not a whole number with a unit" + sizes,
			"GiB":                   "is not a whole number with a unit" + sizes,
			"big":                   "is not a whole number with a unit" + sizes,
			"0GiB":                  "is too small" + sizes,
			"-1GiB":                 "is too small" + sizes,
			"1B":                    "is too small" + sizes,
			"9999999999GiB":         "is too large" + sizes,
			"-9999999999GiB":        "is too large" + sizes,
			"99999999999999999999B": "is too large" + sizes,
		},
		"executable": {
			"/does/not/exist": "does not exist" + programs,
			"/dev/null/app":   "can't be used: not a directory" + programs,
			os.TempDir():      "is not a file" + programs,
		},
		"image": {
			"Debian":     "is not a valid image name: could not parse reference: Debian" + images,
			"debian: 12": "is not a valid image name: could not parse reference: debian: 12" + images,
		},
		"base_image": {
			"Debian":      "is not a valid image name: could not parse reference: Debian" + bases,
			"./none":      "does not exist" + bases,
			"none.tar":    "does not exist" + bases,
			"/dev/null":   "is not a file" + bases,
			"/dev/null/x": "can't be used: not a directory" + bases,
			os.TempDir():  "is a directory, but not an OCI layout" + bases,
		},
		"host": {
			"10.0.0.1:80":  `has the port 80; write "10.0.0.1"` + hosts,
			"[::1]:80":     `has the port 80; write "::1"` + hosts,
			"0.0.0.0":      "stands for all addresses, so it cannot be dialled" + hosts,
			"::":           "stands for all addresses, so it cannot be dialled" + hosts,
			"10.0.0.256":   "is not an address" + hosts,
			"http://a":     "is not an address" + hosts,
			"-a":           "is not an address" + hosts,
			"two words":    "is not an address" + hosts,
			"[fd00::1]":    "is not an address" + hosts,
			"a..b.example": "is not an address" + hosts,
		},
		"docker_network": {
			"none":  "connects containers to nothing" + networks,
			"a net": "is not a valid network name" + networks,
			"-net":  "is not a valid network name" + networks,
		},
		"docker_volumes": {
			"/data":            `has "/data" in it, which is not host:container` + volumes,
			":/data":           `has ":/data" in it, which is not host:container` + volumes,
			"/a:/b:ro:rw":      `has "/a:/b:ro:rw" in it, which is not host:container` + volumes,
			"/a:/b,":           `has "" in it, which is not host:container` + volumes,
			"/a:/b,/c:/d:wr":   `has "/c:/d:wr" in it, whose last part is neither ro nor rw` + volumes,
			"~/data:/data":     `has "~/data:/data" in it, whose first part is neither a path, which starts with / or ., nor the name of a volume` + volumes,
			"/data:data":       `has "/data:data" in it, whose second part is not an absolute path below /` + volumes,
			"/data:/":          `has "/data:/" in it, whose second part is not an absolute path below /` + volumes,
			"/a:/x,/b:/y/../x": "has two volumes at /x" + volumes,
		},
		"docker_capabilities": {
			"CHOWN,":       `has "" in it, which is not a valid capability name` + capabilities,
			"drop all":     `has "drop all" in it, which is not a valid capability name` + capabilities,
			"CHOWN;SETUID": `has "CHOWN;SETUID" in it, which is not a valid capability name` + capabilities,
			"CAP_":         `has "CAP_" in it, which is not a valid capability name` + capabilities,
		},
		"docker_pids_limit": {
			"many": "is not a whole number; allowed: a whole number of processes and threads, at least 1",
			"0":    "is less than one; allowed: a whole number of processes and threads, at least 1",
			"-1":   "is less than one; allowed: a whole number of processes and threads, at least 1",
		},
		"kubernetes_namespace": {
			"My-Team": "is not a valid namespace name; allowed: the name of a namespace: small letters, digits and -, at most 63",
			"a.b":     "is not a valid namespace name; allowed: the name of a namespace: small letters, digits and -, at most 63",
		},
		"kubernetes_volumes": {
			"Data":          `has "Data" in it, whose first part is not a valid claim name` + claims,
			"data:x":        `has "data:x" in it, whose second part is not an absolute path below /` + claims,
			"data:/":        `has "data:/" in it, whose second part is not an absolute path below /` + claims,
			"data:/x:wr":    `has "data:/x:wr" in it, whose last part is neither ro nor rw` + claims,
			"a,b":           "has two claims at /persistent" + claims,
			"a:/x,,b:/y/..": `has "" in it, whose first part is not a valid claim name` + claims,
		},
		"kubernetes_gpu_resource": {
			"two words": "is not a valid resource name; allowed: the name of a resource that nodes have, such as nvidia.com/gpu or amd.com/gpu",
		},
		"pod_template": {
			"/does/not/exist": "does not exist; allowed: the path of a file with a pod in YAML",
			os.TempDir():      "is a directory; allowed: the path of a file with a pod in YAML",
		},
		"log_file": {
			"/does/not/exist/log": "is in /does/not/exist, which is not a directory" + logs,
			os.TempDir():          "is a directory" + logs,
			"/tmp/%p/log":         `has "%p" in the name of a directory` + logs,
		},
	} {
		for value, want := range values {
			t.Run(key+"="+value, func(t *testing.T) {
				t.Parallel()
				from := sources(t, "\n"+key+" = "+value)
				_, _, err := config.Load(config.Config{}, from)
				require.EqualError(t, err, from.Dir+"/.fiberconfig:2: "+key+` = "`+value+`" `+want)

				name := environ(key)
				_, _, err = config.Load(config.Config{}, sources(t, "", name+"="+value))
				require.EqualError(t, err, "environment variable "+name+": "+key+` = "`+value+`" `+want)
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
		`code, Config.HeartbeatTimeout: heartbeat_timeout = "10ns" is too short`:                     {HeartbeatTimeout: 10},
		`code, Config.CancelGrace: cancel_grace = "-1s" is too short`:                                {CancelGrace: -time.Second},
		`code, Config.MaxMessage: max_message = "1B" is too small`:                                   {MaxMessage: 1},
		`code, Config.MaxMessage: max_message = "-1KiB" is too small`:                                {MaxMessage: -config.KiB},
		`code, Config.ForwardLogs: forward_logs = "invalid" is neither On nor Off`:                   {ForwardLogs: 2},
		`code, Config.Backend: backend = "cloud" is not known; allowed: local, docker or kubernetes`: {Backend: "cloud"},
		`code, Config.Executable: executable = "/a\x00b" has a zero byte in it`:                      {Executable: "/a\x00b"},
		`code, Config.RuntimeDir: runtime_dir = "/does/not/exist" does not exist`:                    {RuntimeDir: "/does/not/exist"},
		`code, Config.RuntimeDir: runtime_dir = "/dev/null" is not a directory`:                      {RuntimeDir: "/dev/null"},
		`code, Config.DockerVolumes: docker_volumes = "/a:/b,c" has "c" in it`:                       {DockerVolumes: []string{"/a:/b", "c"}},
		`code, Config.Host: host = "a:1" has the port 1; write "a"`:                                  {Host: "a:1"},
		`default: heartbeat_timeout = "10s" is not longer than heartbeat_interval; allowed: ` +
			`more than the 10s of heartbeat_interval (code, Config.HeartbeatInterval)`: {HeartbeatInterval: 10 * time.Second},
	} {
		_, _, err := config.Load(code, sources(t, ""))
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatMustBeExecutable(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "notes.txt"), "", 0o600)
	_, _, err := config.Load(config.Config{Executable: path}, sources(t, ""))
	assert.ErrorContains(t, err, "is not executable; allowed: the path of an executable file")
}

func TestEveryFaultIsReported(t *testing.T) {
	t.Parallel()
	from := sources(t, "log_level = loud\nnonsense\n", "FIBER_MAX_MESSAGE=1", "FIBER_FORWARD_LOGS=perhaps")
	_, _, err := config.Load(config.Config{CancelGrace: 5}, from)
	for _, part := range []string{":1: log_level", ":2: ", "FIBER_MAX_MESSAGE", "FIBER_FORWARD_LOGS", "Config.CancelGrace"} {
		assert.ErrorContains(t, err, part)
	}
	var fault *config.Error
	require.ErrorAs(t, err, &fault)
}

func TestAnOverriddenValue(t *testing.T) {
	t.Parallel()
	t.Run("must be well-formed", func(t *testing.T) {
		t.Parallel()
		_, _, err := config.Load(config.Config{LogLevel: "info"}, sources(t, "", "FIBER_LOG_LEVEL=loud"))
		assert.ErrorContains(t, err, "FIBER_LOG_LEVEL")
	})
	t.Run("need not exist", func(t *testing.T) {
		t.Parallel()
		self, err := os.Executable()
		require.NoError(t, err)
		from := sources(t, "executable = not/built/yet\nheartbeat_timeout = 500ms", "FIBER_HEARTBEAT_TIMEOUT=5s")
		assert.Equal(t, self, load(t, config.Config{Executable: self}, from).Executable)
	})
}
