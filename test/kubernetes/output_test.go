//go:build unix

package kubernetes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// poem is how much a process says.
type poem struct {
	Name  string
	Lines int
}

// recite writes numbered lines as quickly as it can.
var recite = fiber.Register("recite", func(_ context.Context, s poem) (fibertest.None, error) {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range s.Lines {
		fmt.Fprintf(out, "%s %d %s\n", s.Name, i, verse)
	}
	return fibertest.None{}, out.Flush()
})

var verse = strings.Repeat("x", 30)

// reciteBelow has a process of its own recite.
var reciteBelow = fiber.Register("recite below", func(ctx context.Context, s poem) (fibertest.None, error) {
	p := fiber.NewProcess(recite, s)
	if err := p.Start(ctx); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, p.Join(ctx)
})

// heard checks that a poem has come whole and in order, and removes it from an output.
func heard(t *testing.T, out string, s poem) (rest string) {
	t.Helper()
	next := 0
	var others strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, s.Name+" ") {
			others.WriteString(line)
			continue
		}
		require.Equal(t, fmt.Sprintf("%s %d %s\n", s.Name, next, verse), line)
		next++
	}
	require.Equal(t, s.Lines, next, s.Name)
	return others.String()
}

var _ = fibertest.MainProgram("recital", func(ctx context.Context) error {
	for _, f := range []*fiber.Func[poem, fibertest.None]{recite, reciteBelow} {
		p := fiber.NewProcess(f, poem{"all at once", 500_000})
		if err := p.Start(ctx); err != nil {
			return err
		}
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	return nil
})

// What a process writes arrives, however fast it is: 20 MB at once, twice, the second time from a process of a process.
func TestAllOfTheOutputOfAPodArrives(t *testing.T) {
	x := clustered(t, "recital")
	require.Zero(t, x.Wait(3*fibertest.Patience), x.Err.String())
	out, all := x.Out.String(), poem{"all at once", 500_000}
	half := len(out) / 2
	require.Empty(t, heard(t, out[:half], all))
	require.Empty(t, heard(t, out[half:], all))
	require.Empty(t, x.Err.String())
}

var _ = fibertest.MainProgram("chorus", func(ctx context.Context) error {
	pool, err := fiber.NewPool(8)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	var all []poem
	for i := range 8 {
		all = append(all, poem{fmt.Sprintf("worker %d", i), chorusLines})
	}
	_, err = fiber.Map(ctx, pool, recite, all, fiber.ChunkSize(1))
	return err
})

const chorusLines = 280_000

// Eight workers write 100 MB in all, while the root's own output is read slowly, and not at all for a while.
func TestAllOfTheOutputOfManyPodsArrives(t *testing.T) {
	needCluster(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), fibertest.ClusterEnv()...), fibertest.ProgramKey+"=chorus")
	cmd.Dir = t.TempDir()
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var got strings.Builder
	for err == nil {
		_, err = io.CopyN(&got, stdout, 1<<20)
		time.Sleep(50 * time.Millisecond) // that is slow
		if got.Len() == 10<<20 {
			time.Sleep(20 * time.Second) // longer than a connection may be silent
		}
	}
	require.Equal(t, io.EOF, err)
	require.NoError(t, cmd.Wait(), errs.String())
	require.Empty(t, errs.String())
	out := got.String()
	require.Greater(t, len(out), 100_000_000)
	for i := range 8 {
		out = heard(t, out, poem{fmt.Sprintf("worker %d", i), chorusLines})
	}
	require.Empty(t, out)
}
