package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	lines, faults := config.ParseFile("f", []byte("\ufeff# a comment\r\n; another\r\n\r\n  [Default]\r\n"+
		"Log_Level=debug\r\n\tlog_file = /a b/#1;x.log   # the rest\nmax_message = 1 GiB ; so\nbackend==x"), false)
	require.Empty(t, faults)
	assert.Equal(t, map[string]config.Line{
		"log_level":   {"debug", "f:5"},
		"log_file":    {"/a b/#1;x.log", "f:6"},
		"max_message": {"1 GiB", "f:7"},
		"backend":     {"=x", "f:8"},
	}, lines)
}

func TestParseFileFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\n[worker]":                          `f:2: "[worker]" is not a "key = value" line`,
		"[default":                            `f:1: "[default" is not a "key = value" line`,
		"backend local":                       `f:1: "backend local" is not a "key = value" line`,
		"= local":                             `f:1: "= local" is not a "key = value" line`,
		"backend =":                           `f:1: backend has no value; leave the line out for the default`,
		"backend = # local":                   `f:1: backend has no value; leave the line out for the default`,
		`backend = "local"`:                   `f:1: backend = "local" is in quotes; write it without`,
		"backend = local\n\nBACKEND = local":  `f:3: backend is set a second time, first at f:1`,
		"\xff\xfeb\x00":                       `f:1: "\xff\xfeb\x00" is not a "key = value" line`,
		"what\nbackend = local\nbackend = no": "f:1: \"what\" is not a \"key = value\" line\nf:3: backend is set a second time, first at f:2",
	} {
		_, faults := config.ParseFile("f", []byte(text), false)
		assert.EqualError(t, errors.Join(faults...), want, text)
	}
}

func TestAnUnknownKeyInTheFile(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"heartbeat_timeot":  "is not a known key; did you mean heartbeat_timeout?",
		"Heartbeat-Timeout": "is not a known key; did you mean heartbeat_timeout?",
		"HeartbeatTimeout":  "is not a known key; did you mean heartbeat_timeout?",
		"loglevel":          "is not a known key; did you mean log_level?",
		"use_push_queue":    "is not a known key",
	} {
		from := sources(t, "# mine\n"+key+" = 1")
		_, _, err := config.Load(config.Config{}, from)
		assert.ErrorContains(t, err, ".fiberconfig:2: "+strings.ToLower(key)+" "+want)
	}
}

func TestAFileThatCantBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, config.FileName), 0o700))
	_, _, err := config.Load(config.Config{}, config.Sources{Environ: []string{}, Dir: dir})
	assert.EqualError(t, err, dir+"/.fiberconfig: can't be read: read "+dir+"/.fiberconfig: is a directory")
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"", "[default]\nbackend = local\n", "a=b\na=c", "#x\n;y\n z = 1 # w", "\ufeffk=v\r\n", "[x]\n=\nk=\nk=\"v\"", "\xff", "k=#v", "\x00=\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, _ := config.ParseFile("f", text, false)
		for key, line := range lines {
			again, faults := config.ParseFile("g", []byte("\n"+key+"="+line.Value), false)
			require.Empty(t, faults)
			require.Equal(t, map[string]config.Line{key: {line.Value, "g:2"}}, again)
		}
	})
}
