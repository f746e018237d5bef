package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pod for copying stays while files are copied and ends when none are, whatever its node's clock says meanwhile.
func TestPodForCopyingGoesByNoClock(t *testing.T) {
	for _, off := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "busy")
			var over atomic.Bool
			go func() {
				hold(file)
				over.Store(true)
			}()
			for range 100 {
				require.NoError(t, os.WriteFile(file, nil, 0o666))
				at := time.Now().Add(off)
				require.NoError(t, os.Chtimes(file, at, at))
				time.Sleep(busyPause)
				synctest.Wait()
				require.False(t, over.Load(), off)
			}
			time.Sleep(2 * idle)
			synctest.Wait()
			require.True(t, over.Load(), off)
		})
	}
}

func TestScriptForCopyingGoesByNoClock(t *testing.T) {
	dir := t.TempDir()
	file, count := filepath.Join(dir, "busy"), filepath.Join(dir, "count")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, at := range []string{"200001010000", "203601010000"} {
		sleep := fmt.Sprintf("#!/bin/sh\necho >>%s\n[ $(wc -l <%s) -ge 4 ] || touch -t %s %s\n", count, count, at, file)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep"), []byte(sleep), 0o755))
		command(t, "sh", "-c", holdScript(file))
		b, err := os.ReadFile(count)
		require.NoError(t, err)
		require.Equal(t, 4, strings.Count(string(b), "\n"), at)
		require.NoError(t, os.Remove(count))
	}
}
