//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Children of a program whose executable is deleted or replaced on disk.
var _ = fibertest.MainProgram("replaced", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	before, err := fiber.Apply(ctx, pool, fibertest.Square, 3)
	if err != nil {
		return err
	}
	fmt.Println("started")
	for {
		if _, err := os.Stat(os.Getenv(fibertest.ArgKey)); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := pool.Resize(ctx, 4); err != nil {
		return err
	}
	p := fiber.NewProcess(fibertest.Parenting, time.Duration(0)) // and a child's child
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.Join(ctx); err != nil {
		return err
	}
	after, err := fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(100))
	if err != nil {
		return err
	}
	fmt.Println("fine", before, after[99], pool.Stats().Ready)
	return nil
})

func TestExecutableGoesFromDisk(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	for name, change := range map[string]func(path string) error{
		"deleted": os.Remove,
		"replaced": func(path string) error {
			other := path + ".new"
			if err := os.WriteFile(other, []byte("#!/bin/sh\nexit 66\n"), 0o755); err != nil {
				return err
			}
			return os.Rename(other, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, gate := filepath.Join(t.TempDir(), "program"), fibertest.TempFile(t)
			// Not by this process: a child that it forks meanwhile would have
			// the file open for writing, and nobody could run it.
			require.NoError(t, exec.Command("cp", exe, path).Run())
			x := fibertest.StartFile(t, path, "replaced", fibertest.ArgKey+"="+gate)
			x.Says("started")
			require.NoError(t, change(path))
			require.NoError(t, os.WriteFile(gate, nil, 0o644))
			require.Zero(t, x.Wait(fibertest.Patience))
			require.Equal(t, "started\nfine 9 9801 4\n", x.Out.String())
		})
	}
}

// build builds the program in testdata/build with some flags.
func build(t testing.TB, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "./testdata/build")...).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestAnotherBuild(t *testing.T) {
	t.Parallel()
	one := build(t)
	two := build(t, "-ldflags=-X main.build=two")
	changed := build(t, "-tags=changed")
	more := build(t, "-tags=more")
	allow := "FIBER_ALLOW_OTHER_BUILD=true"
	mismatch := `version "", mismatch true, launch false`
	for _, test := range []struct {
		name string
		exe  string
		env  []string
		says string
		errs []string
	}{
		{"itself", one, nil, `version "one", mismatch false, launch false`, nil},
		{"itself by name", one, []string{"FIBER_EXECUTABLE=" + one}, `version "one", mismatch false, launch false`, nil},
		{"same functions", one, []string{"FIBER_EXECUTABLE=" + two}, mismatch,
			[]string{"another build of this program", "same functions", "FIBER_ALLOW_OTHER_BUILD=true"}},
		{"same functions, allowed", one, []string{"FIBER_EXECUTABLE=" + two, allow}, `version "two", mismatch false, launch false`, nil},
		{"other types", one, []string{"FIBER_EXECUTABLE=" + changed}, mismatch,
			[]string{"another build", "function double(int) string there, double(int) int here"}},
		{"other types, allowed", one, []string{"FIBER_EXECUTABLE=" + changed, allow}, mismatch,
			[]string{"function double(int) string there, double(int) int here"}},
		{"a function more", one, []string{"FIBER_EXECUTABLE=" + more, allow}, mismatch,
			[]string{"function triple(int) int is missing here"}},
		{"a function less", more, []string{"FIBER_EXECUTABLE=" + one, allow}, mismatch,
			[]string{"function triple(int) int is missing there"}},
		{"no program of Fiber's", one, []string{"FIBER_EXECUTABLE=/bin/true"}, `version "", mismatch false, launch true`,
			[]string{"ended before it was ready", "exit code 0"}},
		{"a program that fails", one, []string{"FIBER_EXECUTABLE=/bin/false"}, `version "", mismatch false, launch true`,
			[]string{"ended before it was ready", "exit code 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := fibertest.StartFile(t, test.exe, "", append(test.env, fibertest.ProgramKey+"=")...)
			code := x.Wait(fibertest.Patience)
			require.Equal(t, test.says+"\n", x.Out.String())
			for _, text := range test.errs {
				require.Contains(t, x.Err.String(), text)
			}
			require.Equal(t, len(test.errs) > 0, code == 1)
			x.NobodyLeft()
		})
	}
}
