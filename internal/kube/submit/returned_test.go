package submit

import (
	"bytes"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/config"
	marks "github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Files that are on a volume of the pod stay there.
func TestWhatIsReturned(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Report: "/home/me/run.html", Trace: "/persistent/traces/run.json.gz", KubernetesVolumes: []string{"data"}}
	require.Equal(t, map[string]string{"report": "/home/me/run.html"}, Returned(cfg))
	env := Settings(cfg)
	require.Contains(t, env, "FIBER_REPORT=/tmp/run.html")
	require.Contains(t, env, "FIBER_TRACE=/persistent/traces/run.json.gz")
}

// A file comes in pieces amid the program's stderr, is written when it is whole, and replaces the last one. What has not come as a
// whole leaves nothing.
func TestTaker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	require.NoError(t, err)
	defer said.Close()
	r := NewReport(said)
	page := filepath.Join(dir, "run.html")
	require.NoError(t, os.WriteFile(page, []byte("an old one"), 0o600))
	run := &Run{Report: r, Returned: map[string]string{"report": page, "trace": filepath.Join(dir, "none", "run.json.gz")}}
	job := &Job{}
	run.returns(job)
	require.Equal(t, []string{stdio.ReturnKey + "=report,trace"}, job.Env)

	piece := func(key, data string) []byte {
		return marks.Mark(stdio.ReturnKind, []byte(key+" "+base64.StdEncoding.EncodeToString([]byte(data))))
	}
	var out bytes.Buffer
	to := r.stderr(&out)
	io.WriteString(to, "before\n")
	to.Write(piece("report", "a page "))
	require.FileExists(t, page)
	old, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "an old one", string(old), "it has not come as a whole")
	for _, b := range append(piece("report", "in two pieces"), marks.Mark(stdio.ReturnKind, []byte("report =20"))...) {
		to.Write([]byte{b})
	}
	to.Write(piece("trace", "its directory is not there"))
	to.Write(piece("trace", "more"))
	to.Write(piece("of a setting that was not asked for", "data"))
	io.WriteString(to, "after\n")
	require.Equal(t, "before\nafter\n", out.String())
	made, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "a page in two pieces", string(made))

	to.Write(piece("report", "with a gap"))
	to.Write(marks.Mark(stdio.ReturnKind, []byte("report =20")))
	r.taken()
	to.Write(piece("report", "too late"))
	made, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "a page in two pieces", string(made))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
	text, err := os.ReadFile(said.Name())
	require.NoError(t, err)
	require.Contains(t, string(text), "fiber: the report is in "+page)
	require.Contains(t, string(text), "fiber: the trace could not be written")
	require.Contains(t, string(text), "fiber: the report could not be written: it has not come as a whole")
}
