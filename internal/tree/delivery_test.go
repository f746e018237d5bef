//go:build unix

package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// joined is the output of a job.
type joined struct{ bytes.Buffer }

func (j *joined) Missing(n int64, why string) { fmt.Fprintln(j, "missing", n, why) }

// An init dials the root, again if its connection breaks. When its output has ended, or its job has, nobody waits for it.
func TestDeliveredOutput(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	d := &delivered{node: n, name: "job"}
	text, err := d.Target(t.Context())
	require.NoError(t, err)
	var target delivery.Target
	require.NoError(t, json.Unmarshal([]byte(text), &target))
	require.Empty(t, target.Credentials, "anybody may see how a job was started")
	target.Credentials, _ = n.Credentials.MarshalBinary()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	init, err := delivery.Deliver(ctx, target.String())
	require.NoError(t, err)
	want := strings.Repeat("line\n", 1000)
	go func() {
		init.Write([]byte(want))
		init.End(ctx)
	}()
	var got joined
	require.True(t, d.Read(t.Context(), nil, nil, &got))
	require.Equal(t, want, got.String())
	require.Empty(t, n.listener.waiting)

	_, err = d.Target(t.Context())
	require.NoError(t, err)
	require.Len(t, n.listener.waiting, 1)
	ended := make(chan struct{})
	close(ended)
	require.False(t, d.Read(t.Context(), nil, ended, &got))
	require.Empty(t, n.listener.waiting)

	conn, err := transport.Dial(t.Context(), target.Endpoint, n.Credentials, transport.Options{})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Send(t.Context(), wire.MustPack(wire.KindHello, wire.Hello{Process: target.Process})...))
	_, err = conn.Recv()
	require.Error(t, err, "nobody waits for it")

	require.NoError(t, n.Shutdown(t.Context()))
	_, err = d.Target(t.Context())
	require.ErrorIs(t, err, ErrShutdown)
}

// An init that does not reach the root is given up, but not before its program has started.
func TestAnInitThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &delivered{node: &Node{Log: slog.New(slog.NewTextHandler(&log, nil))}, name: "job",
			way: &dialback{visits: make(chan visit), stop: func() {}}}
		started := make(chan struct{})
		begun := time.Now()
		time.AfterFunc(time.Hour, func() { close(started) })
		require.False(t, d.Read(t.Context(), started, nil, new(joined)))
		require.Equal(t, time.Hour+visitTimeout, time.Since(begun))
		require.Contains(t, log.String(), "which may lose some of it")
		require.Contains(t, log.String(), "process=job")
	})
}
