package simulate

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// spreading is a large value that many processes get at the same time.
type spreading struct {
	ready, got sync.WaitGroup
	begin      chan struct{}
}

// spreadBytes is its size.
const spreadBytes = 8 << 20

var getSpread = fiber.Register("getSpread", func(ctx context.Context, s *fiber.Shared[[]byte]) (int, error) {
	p := bookOf[*spreading](0)
	p.ready.Done()
	<-p.begin
	v, err := s.Get(ctx)
	if err == nil && (len(v) != spreadBytes || v[spreadBytes-1] != 7) {
		err = fmt.Errorf("%d bytes", len(v))
	}
	if err != nil {
		here().breach("spread", "%v", err)
	}
	p.got.Done()
	p.got.Wait()
	return 0, err
})

// spread returns how long it takes until so many processes, each with 20 Mbit/s in either direction, have got a value, and how
// many bytes the root has sent.
func spread(t *testing.T, processes int) (took time.Duration, sent int64) {
	root := func(run *sim.Run) error {
		p := &spreading{begin: make(chan struct{})}
		w := &world{run: run, books: map[int]any{0: p}}
		run.State = w
		p.ready.Add(processes)
		p.got.Add(processes)
		if err := fiber.Init(fiber.Config{LogLevel: "error"}); err != nil {
			return err
		}
		ctx := context.Background()
		v := make([]byte, spreadBytes)
		v[spreadBytes-1] = 7
		s, err := fiber.Share(ctx, v)
		if err != nil {
			return err
		}
		for range processes {
			if _, err := start(ctx, getSpread, s); err != nil {
				return err
			}
		}
		p.ready.Wait()
		begun, before := time.Now(), sim.Here().Sent()
		close(p.begin)
		p.got.Wait()
		took, sent = time.Since(begun), sim.Here().Sent()-before
		return fiber.Shutdown(ctx)
	}
	plan := sim.Plan{Machines: processes, Threads: 1, Scale: 1, Rate: 20e6 / 8}
	result := sim.Simulate(func(run func()) { synctest.Test(t, func(*testing.T) { run() }) }, plan,
		sim.Program{Child: program.Child, End: program.End, Root: root})
	require.Empty(t, result.Breaches, result.Timeline)
	return took, sent
}

// A large value reaches many machines in about the time that it takes to reach a few, and its home sends it to two of them, as
// long as nothing fails.
func TestSpread(t *testing.T) {
	few, _ := spread(t, 4)
	many, sent := spread(t, 64)
	t.Logf("4 processes have it after %v, 64 after %v, when the root has sent %d bytes", few, many, sent)
	require.Less(t, many, 2*few)
	require.Less(t, sent, int64(2*bits.Len(64)*spreadBytes))
}
