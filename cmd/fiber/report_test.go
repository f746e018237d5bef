package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/report"
)

func TestReportCommand(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "run.html")
	rec := report.NewRecorder(report.Info{Program: "killed", Began: time.Unix(0, 0)}).Recording()
	require.NoError(t, report.Save(page+report.Suffix, rec.WriteJSON))
	for _, args := range [][]string{{page}, {page + report.Suffix}, {page, "-o", page + "2"}} {
		out, stderr, code := fiber(t, ".", nil, append([]string{"report"}, args...)...)
		require.Zero(t, code, stderr)
		to := page
		if len(args) > 1 {
			to = args[2]
		}
		require.Equal(t, to+"\n", out)
		text, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Contains(t, string(text), `"Program":"killed"`)
		require.NoError(t, os.Remove(to))
	}

	whole, err := os.ReadFile(page + report.Suffix)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(page+report.Suffix, whole[:len(whole)/2], 0o644))
	_, stderr, code := fiber(t, ".", nil, "report", page)
	require.NotZero(t, code)
	require.Contains(t, stderr, page+".recording: the recording is damaged")
	require.NoError(t, os.WriteFile(page+report.Suffix, []byte("<html>"), 0o644))
	_, stderr, code = fiber(t, ".", nil, "report", page)
	require.NotZero(t, code)
	require.Contains(t, stderr, page+".recording: it is not a recording of a run")
	require.NoFileExists(t, page)
	_, stderr, code = fiber(t, ".", nil, "report", page+"x")
	require.NotZero(t, code)
	require.Contains(t, stderr, "no such file or directory; a run that ends by itself makes its page and leaves no recording")
}
