package job_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/logmux"
)

// written returns what an init writes for a program that wrote to both outputs and exited with code 3.
func written(t *testing.T) []byte {
	var stream bytes.Buffer
	w := logmux.NewWriter(&stream)
	require.NoError(t, w.Begin())
	out, errs := w.Stdout(), w.Stderr()
	out.Write([]byte("out\n"))
	errs.Write([]byte("err\n"))
	_, err := w.End(logmux.End{Code: 3})
	require.NoError(t, err)
	return stream.Bytes()
}

// closing notes that it has been closed.
type closing struct {
	bytes.Buffer
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestOutputComesApart(t *testing.T) {
	t.Parallel()
	life := job.New()
	var stdout, stderr closing
	out := life.Pass(&stdout, &stderr, func(apart *job.Apart, errs io.Writer) {
		apart.Write(written(t))
		errs.Write([]byte("init\n"))
	})
	<-out.Done()
	end, said := out.End(time.Minute, func() { t.Error("all has been read") })
	require.True(t, said)
	require.Equal(t, 3, end.Code)
	require.Equal(t, "out\n", stdout.String())
	require.Equal(t, "err\ninit\n", stderr.String())
	require.True(t, stdout.closed && stderr.closed)
	life.End(job.Exited(end.Code), nil)
	logs, err := life.Logs(t.Context(), false)
	require.NoError(t, err)
	kept, err := io.ReadAll(logs)
	require.NoError(t, err)
	require.Equal(t, "out\nerr\ninit\n", string(kept))
}

// An output that does not end is abandoned; one whose writer blocks follows when the writer unblocks.
func TestOutputThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begun := time.Now()
		out := job.New().Pass(nil, nil, func(*job.Apart, io.Writer) { <-ctx.Done() })
		_, said := out.End(time.Second, stop)
		require.False(t, said)
		require.Equal(t, time.Second, time.Since(begun))

		from, to := io.Pipe()
		text := written(t)
		out = job.New().Pass(to, nil, func(apart *job.Apart, _ io.Writer) { apart.Write(text) })
		_, said = out.End(time.Second, func() { t.Error("it has been read") })
		require.False(t, said)
		taken, err := io.ReadAll(from)
		require.NoError(t, err)
		require.Equal(t, "out\n", string(taken))
		<-out.Done()

		// While output comes, it goes on.
		ctx, stop = context.WithCancel(t.Context())
		begun = time.Now()
		out = job.New().Pass(nil, nil, func(apart *job.Apart, _ io.Writer) {
			for range 8 {
				time.Sleep(time.Second - time.Millisecond)
				apart.Write([]byte("x\n"))
			}
			<-ctx.Done()
		})
		_, said = out.End(time.Second, stop)
		require.False(t, said)
		require.Greater(t, time.Since(begun), 8*time.Second)

		// The rest of a line comes when the output is closed.
		from, to = io.Pipe()
		ctx, stop = context.WithCancel(t.Context())
		out = job.New().Pass(&untilClosed{to}, nil, func(*job.Apart, io.Writer) { <-ctx.Done() })
		_, said = out.End(time.Second, stop)
		require.False(t, said)
		taken, err = io.ReadAll(from)
		require.NoError(t, err)
		require.Equal(t, "the rest", string(taken))
		<-out.Done()
	})
}

// untilClosed writes when it is closed.
type untilClosed struct{ *io.PipeWriter }

func (w *untilClosed) Close() error {
	w.Write([]byte("the rest"))
	return w.PipeWriter.Close()
}

func TestExitCodesOfSignals(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{0: "exit code 0", 3: "exit code 3", 137: "signal: killed", 200: "exit code 200", -1: "exit code -1"} {
		require.Equal(t, want, job.Exited(code).String())
	}
}
