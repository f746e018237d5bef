package config_test

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "github.com/fiber-go/fiber" // and its backends
	"github.com/fiber-go/fiber/internal/config"
)

const docs, fields = "../../docs/config.md", "../../config_fields.go"

var (
	update  = flag.Bool("update", false, "write the table of keys into docs/config.md, and fiber.Config into config_fields.go")
	body    = regexp.MustCompile(`(?s)type Config struct {\n.*?\n}\n`)
	tag     = regexp.MustCompile(" `.*`")
	keyRows = regexp.MustCompile(`(?s)(<!-- keys[^>]*-->\n).*(<!-- /keys -->)`)
)

func TestDocsListEveryKey(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile(docs)
	require.NoError(t, err)
	require.Regexp(t, keyRows, string(have), "docs/config.md has lost the marks around its table")
	want := keyRows.ReplaceAllStringFunc(string(have), func(block string) string {
		marks := keyRows.FindStringSubmatch(block)
		return marks[1] + keyTable() + marks[2]
	})
	written(t, docs, want)
}

// The root package has the same fields, without tags, for its documentation to show.
func TestRootHasTheFields(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("config.go")
	require.NoError(t, err)
	want, err := format.Source([]byte(`// Code generated from internal/config by go test ./internal/config -update; DO NOT EDIT.

package fiber

import (
	"log/slog"
	"time"
)

// Config holds every setting of Fiber. A zero field takes its value from the
// environment (FIBER_BACKEND and so on), else from the file .fiberconfig in the
// working directory, else from the defaults. docs/config.md lists all keys.
// Pass a Config to Main or Init.
` + tag.ReplaceAllString(body.FindString(string(source)), "")))
	require.NoError(t, err)
	written(t, fields, string(want))
}

// written requires that a file has a text, or writes it with -update.
func written(t *testing.T, file, want string) {
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // documentation is public
		return
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, want, string(have), "run: go test ./internal/config -update")
}

func keyTable() string {
	var table strings.Builder
	table.WriteString("| Key | Environment | Type | Default | Meaning |\n|---|---|---|---|---|\n")
	for _, key := range config.Keys() {
		kind := key.Type
		if kind == "word" {
			kind = key.Allowed
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s |\n", key.Name, key.Env, kind, key.Default, key.Meaning)
	}
	return table.String()
}
