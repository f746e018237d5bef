package logger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/logger"
	"github.com/fiber-go/fiber/internal/wire"
)

// plain returns a logger of a text without times.
func plain(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A message arrives with all that it says. One that can't be sent is logged where it came from.
func TestMessagesOnTheirWayUp(t *testing.T) {
	t.Parallel()
	var here, there, lost bytes.Buffer
	var last error
	up := logger.Up("P-1", slog.LevelInfo, func(frames ...[]byte) error {
		var m wire.Log
		require.NoError(t, wire.Unpack(frames, &m))
		require.WithinDuration(t, time.Now(), m.Time, time.Minute)
		if last == nil {
			require.NoError(t, plain(&there).Handler().Handle(context.Background(), logger.Record(m)))
		}
		return last
	}, plain(&lost))
	say := func(to *slog.Logger) {
		to.With("with", "it").Warn("so", "text", "a b", "int", -3, "uint", uint64(math.MaxUint64), "float", 0.5, "bool", true,
			"error", errors.New("not found"), "took", 90*time.Second, "list", []string{"x"})
		to.Debug("not this")
	}
	say(plain(&here))
	say(up)
	require.Equal(t, here.String(), string(bytes.ReplaceAll(there.Bytes(), []byte(" from=P-1"), nil)))
	require.Contains(t, there.String(), " from=P-1\n")
	last = errors.New("closed")
	up.Error("alone", "n", 1)
	require.Equal(t, "level=ERROR msg=alone n=1\n", lost.String())
}

// gated is a handler that hands on when its gate is open.
type gated struct {
	slog.Handler
	gate chan struct{}
}

func (g gated) Handle(ctx context.Context, r slog.Record) error {
	<-g.gate
	return g.Handler.Handle(ctx, r)
}

// Nobody waits for a slow logger: it misses messages, and is told how many. Close hands over what has come.
func TestSlowLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	to := gated{plain(&out).Handler(), make(chan struct{})}
	root := logger.NewRoot(slog.New(to), slog.LevelInfo)
	const all = 1500
	for i := range all {
		root.Info("message", "i", i)
	}
	root.Close(time.Millisecond) // it is stuck: this returns
	close(to.gate)
	root.Close(time.Hour)
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var dropped int
	for i, line := range lines {
		if bytes.Contains(line, []byte("dropped")) {
			require.Equal(t, 1, i)
			dropped = all - (len(lines) - 1)
			require.Contains(t, string(line), slog.Int("messages", dropped).String())
		}
	}
	require.GreaterOrEqual(t, dropped, 499)
	require.Contains(t, string(lines[0]), "i=0")
}
