//go:build unix

package fibertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Marking is a line for a file.
type Marking struct {
	File string
	Line string
	Nap  time.Duration // after it is written
	Gate string        // a file that is waited for when it is written, "" for none
}

// Append writes the line.
func (m Marking) Append() error {
	f, err := os.OpenFile(m.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, m.Line)
	time.Sleep(m.Nap)
	return errors.Join(err, f.Close(), Await(context.Background(), m.Gate))
}

// Await waits for a file, which a test has its processes go on by.
func Await(ctx context.Context, gate string) error {
	for gate != "" {
		if _, err := os.Stat(gate); err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// OpenGate makes the file that processes wait for.
func OpenGate(t testing.TB, gate string) {
	t.Helper()
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
}

// Lines are the words of a file; none where there is no file. A last line without its end doesn't count: its writer is
// still at it, or was killed, which cuts a write where a page of the file ends.
func Lines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(b[:bytes.LastIndexByte(b, '\n')+1]))
}

// TempFile names a file that is not there yet, and that children on every
// backend can write.
func TempFile(t testing.TB) string { return filepath.Join(OpenDir(t), "file") }

// OpenDir is a temporary directory that children on every backend can write
// to.
func OpenDir(t testing.TB) string {
	dir := t.TempDir()
	if b := os.Getenv(backendKey); b != "" && b != "local" {
		os.Chmod(filepath.Dir(dir), 0o777)
	}
	return dir
}
