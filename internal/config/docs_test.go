package config_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
)

const docs = "../../docs/config.md"

var (
	update  = flag.Bool("update", false, "write the table of keys into docs/config.md")
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
	if *update {
		require.NoError(t, os.WriteFile(docs, []byte(want), 0o644)) //nolint:gosec // documentation is public
		return
	}
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
