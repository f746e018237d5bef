package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
)

// begins begins a batch's next task when it is asked whether it has ended.
type begins struct {
	context.Context
	batch *batch
}

func (c begins) Err() error {
	c.batch.next()
	return nil
}

// silent is a link on which nothing may be sent.
type silent struct {
	Link
	t *testing.T
}

func (l silent) Post(frames ...[]byte) error {
	require.FailNow(l.t, "it was sent", "%v", wire.KindOf(frames))
	return nil
}

// A task that returns late, while it is given up, is not given up after all: the
// next one has begun.
func TestTheNextTaskBeginsAsOneIsGivenUp(t *testing.T) {
	t.Parallel()
	w := &Worker{link: silent{t: t}, running: map[*batch]struct{}{}}
	b := &batch{Batch: wire.Batch{Count: 3}, worker: w}
	b.counts.Store(3<<32 | 1)
	b.ctx = begins{context.Background(), b}
	w.running[b] = struct{}{}
	b.overdue(0, time.Second)
	require.Equal(t, 2, b.started())
	require.False(t, b.stuck)
	require.False(t, b.returned)
}
