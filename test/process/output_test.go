//go:build unix

package process_test

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	gate := fibertest.TempFile(t)
	p := started(t, fibertest.Speak, fibertest.Speaking{First: "what it says", Wait: gate, Second: "and then"})
	logs, err := p.Logs(fibertest.Soon(t))
	require.NoError(t, err)
	defer logs.Close()
	r := bufio.NewReader(logs)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "what it says\n", line, "while it runs")

	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	stopped, err := p.Logs(ctx)
	require.NoError(t, err)
	read := make(chan error, 1)
	go func() { _, err := io.ReadAll(stopped); read <- err }()
	cancel()
	require.ErrorIs(t, <-read, context.Canceled)

	fibertest.OpenGate(t, gate)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "and then\n", string(rest))
	require.NoError(t, p.Join(fibertest.Soon(t)))
	again, err := p.Logs(fibertest.Soon(t))
	require.NoError(t, err)
	all, err := io.ReadAll(again)
	require.NoError(t, err)
	require.Equal(t, "what it says\nand then\n", string(all), "after its end")
}

func TestForwardLogs(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "talkative")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "from stdout\nkept 24\n", x.Out.String())
	require.Equal(t, "from stderr\n", x.Err.String())
	x = fibertest.Start(t, "talkative", "FIBER_FORWARD_LOGS=off")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "kept 24\n", x.Out.String())
	require.Empty(t, x.Err.String())
}

// Each line has the name of the process that wrote it in front, once, and is
// whole, however deep that process is.
func TestNamesInFrontOfOutput(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "choir", fibertest.PrefixKey+"=on")
	require.Zero(t, x.Wait(fibertest.Patience), "%s", x.Err.String())
	fibertest.RequireSong(t, x.Out.String())
}
