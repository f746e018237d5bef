//go:build unix

package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// losing loses a worker.
var losing = fiber.Register("losing", func(ctx context.Context, _ fibertest.None) (fibertest.None, error) {
	pool, err := fiber.NewPool(1, fiber.WithName("unlucky"), fiber.WithMaxAttempts(1))
	if err != nil {
		return fibertest.None{}, err
	}
	defer pool.Close()
	fiber.Apply(ctx, pool, fibertest.Die, int(syscall.SIGKILL))
	return fibertest.None{}, nil
})

var losingBelow = fiber.Register("losingBelow", func(ctx context.Context, _ fibertest.None) (fibertest.None, error) {
	return fiber.Go(ctx, losing, fibertest.None{}, fiber.WithName("below")).Get(ctx)
})

// lose loses a worker of a child of the root, and one of a child's child.
func lose(ctx context.Context) error {
	_, err := fiber.Go(ctx, losing, fibertest.None{}, fiber.WithName("top")).Get(ctx)
	if err != nil {
		return err
	}
	_, err = fiber.Go(ctx, losingBelow, fibertest.None{}).Get(ctx)
	return err
}

var _ = fibertest.MainProgram("logger", lose, fiber.Config{Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil)).With("run", 7)})

// lastWords is what the two workers write to stderr.
const lastWords = "last words\nlast words\n"

// Config.Logger gets the root's messages, and, with their process's name, those of processes at any depth. They go nowhere else.
func TestLogger(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "logger", "FIBER_NOTHING=1")
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Equal(t, lastWords, x.Err.String())
	var from []string
	unknown := 0
	for lines := bufio.NewScanner(strings.NewReader(x.Out.String())); lines.Scan(); {
		var m struct {
			Level, Msg, Worker, Reason, From string
			Run                              int
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &m), lines.Text())
		require.Equal(t, 7, m.Run)
		switch {
		case strings.Contains(m.Msg, "FIBER_NOTHING"):
			require.Empty(t, m.From)
			unknown++
			continue
		case m.Msg != "fiber: a worker was lost": // such as what a pod waits for
			continue
		}
		require.Equal(t, "WARN", m.Level)
		require.Regexp(t, "^unlucky", m.Worker)
		require.NotEmpty(t, m.Reason)
		from = append(from, m.From)
	}
	require.Equal(t, []string{"top", "below"}, from, x.Out.String())
	require.Equal(t, 1, unknown)
}

// heedless is a logger's handler that never returns.
type heedless struct{ slog.Handler }

func (heedless) Handle(context.Context, slog.Record) error { select {} }

var _ = fibertest.MainProgram("stuck logger", lose, fiber.Config{Logger: slog.New(heedless{slog.NewTextHandler(os.Stdout, nil)})})

// A logger that never returns delays nothing but the end of the run, and that by a moment.
func TestLoggerThatIsStuck(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "stuck logger", "FIBER_NOTHING=1")
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Empty(t, x.Out.String())
	require.Equal(t, lastWords, x.Err.String())
}
