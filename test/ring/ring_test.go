//go:build unix

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// rankReport is what a rank has to say to a test.
type rankReport struct {
	Rank, Size int
	PID        int
	Name       string
	Left       int
	Right      int
	Members    []fiber.Member
	Inits      int
	Torch      []string
	Text       string
}

// rankReports is a queue for them.
func rankReports(t testing.TB) *fiber.SimpleQueue[rankReport] {
	t.Helper()
	q, err := fiber.NewSimpleQueue[rankReport]()
	require.NoError(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// collectRanks gets n reports in the order of their ranks.
func collectRanks(t testing.TB, q *fiber.SimpleQueue[rankReport], n int) []rankReport {
	t.Helper()
	all := make([]rankReport, n)
	for range n {
		r, err := q.Get(fibertest.Soon(t))
		require.NoError(t, err)
		all[r.Rank] = r
	}
	left, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Zero(t, left, "reports")
	return all
}

var inits int // of the rank in this process

var reporting = fiber.RegisterRing("reporting",
	func(ctx context.Context, node *fiber.RingNode) error {
		inits++
		return nil
	},
	func(ctx context.Context, node *fiber.RingNode, q *fiber.SimpleQueue[rankReport]) error {
		return q.Put(ctx, rankReport{Rank: node.Rank(), Size: node.Size(), PID: os.Getpid(), Name: fiber.CurrentProcess().Name(),
			Left: node.Left().Rank(), Right: node.Right().Rank(), Members: node.Members(), Inits: inits, Torch: node.TorchEnv()})
	})

func TestRing(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			q := rankReports(t)
			ring := fiber.NewRing(size, reporting)
			require.NoError(t, ring.Run(fibertest.Soon(t), q))
			require.Equal(t, size, ring.Size())
			all := collectRanks(t, q, size)
			port := strconv.Itoa(all[0].Members[0].Port)
			for rank, r := range all {
				require.Equal(t, rankReport{Rank: rank, Size: size, PID: r.PID, Name: fmt.Sprintf("%s/rank-%d", ring.Name(), rank),
					Left: (rank + size - 1) % size, Right: (rank + 1) % size, Members: all[0].Members, Inits: 1,
					Torch: []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, fmt.Sprintf("RANK=%d", rank),
						fmt.Sprintf("WORLD_SIZE=%d", size), "GLOO_SOCKET_IFNAME=" + loopback(t)}}, r)
				m := r.Members[rank]
				require.NotZero(t, m.Port)
				m.Host = ""
				require.Equal(t, fiber.Member{Rank: rank, Name: r.Name, PID: r.PID, IP: "127.0.0.1", Interface: loopback(t), Port: m.Port}, m)
				require.False(t, fibertest.Running(r.PID), "rank %d lives on", rank)
			}
			require.Equal(t, size, fibertest.Distinct(pidsOf(all)))
		})
	}
}

func pidsOf(all []rankReport) (pids []int) {
	for _, r := range all {
		pids = append(pids, r.PID)
	}
	return pids
}

func loopback(t testing.TB) string {
	all, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return ""
}

func TestRingRunsAgain(t *testing.T) {
	t.Parallel()
	q := rankReports(t)
	ring := fiber.NewRing(2, reporting)
	require.NoError(t, ring.Run(fibertest.Soon(t), q))
	first := collectRanks(t, q, 2)
	require.NoError(t, ring.Run(fibertest.Soon(t), q))
	second := collectRanks(t, q, 2)
	require.Equal(t, 4, fibertest.Distinct(append(pidsOf(first), pidsOf(second)...)))
}

// A rank's port is its own: others that want any do not get it, and it can be
// listened at.
var listening = fiber.RegisterRing("listening", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			l.Close()
		}
	}()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		taken = append(taken, l)
	}
	if err := node.Barrier(ctx); err != nil {
		return err
	}
	m := node.Members()[node.Rank()]
	l, err := net.Listen("tcp", net.JoinHostPort(m.IP, strconv.Itoa(m.Port)))
	if err != nil {
		return err
	}
	defer l.Close()
	if err := node.Barrier(ctx); err != nil {
		return err
	}
	right := node.Members()[node.Right().Rank()]
	c, err := net.Dial("tcp", net.JoinHostPort(right.IP, strconv.Itoa(right.Port)))
	if err != nil {
		return err
	}
	return errors.Join(c.Close(), node.Barrier(ctx))
})

func TestRingPorts(t *testing.T) {
	t.Parallel()
	require.NoError(t, fiber.NewRing(3, listening).Run(fibertest.Soon(t), fibertest.None{}))
}

// Run begins nowhere before init has ended everywhere.
var ordered = fiber.RegisterRing("ordered",
	func(ctx context.Context, node *fiber.RingNode) error {
		time.Sleep(time.Duration(node.Rank()) * 100 * time.Millisecond)
		inits++
		xs := []float64{1}
		if err := fiber.AllReduce(ctx, node, xs); err != nil || xs[0] != 3 {
			return fmt.Errorf("%v in init: %w", xs, err)
		}
		time.Sleep(time.Duration(node.Rank()) * 100 * time.Millisecond)
		return fibertest.Marking{File: os.Getenv("TEST_ORDER"), Line: "init"}.Append()
	},
	func(ctx context.Context, node *fiber.RingNode, file string) error {
		return fibertest.Marking{File: file, Line: "run"}.Append()
	})

func TestInitBeforeRun(t *testing.T) {
	file := fibertest.TempFile(t)
	t.Setenv("TEST_ORDER", file)
	require.NoError(t, fiber.NewRing(3, ordered).Run(fibertest.Soon(t), file))
	require.Equal(t, []string{"init", "init", "init", "run", "run", "run"}, fibertest.Lines(t, file))
}

var greedy = fiber.RegisterRing("greedy", nil, func(context.Context, *fiber.RingNode, fibertest.None) error { return nil }, meta.GPU(1000))

//fiber:ignore register that is what is tested
//fiber:ignore travels that is what is tested
func TestRingsBadInput(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, -1} {
		err := fiber.NewRing(size, reporting).Run(fibertest.Soon(t), nil)
		require.EqualError(t, err, fmt.Sprintf("fiber: NewRing(%d): the size must be at least 1", size))
	}
	err := fiber.NewRing[fibertest.None](2, nil).Run(fibertest.Soon(t), fibertest.None{})
	require.ErrorContains(t, err, "uninitialised RingFunc")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, context.Canceled, fiber.NewRing(2, heedlessRing).Run(ctx, nil))

	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	require.ErrorContains(t, fiber.NewRing(2, piping).Run(fibertest.Soon(t), w), "the end of a pipe can be in one process only")
	require.NoError(t, w.Send(fibertest.Soon(t), 7), "it is still here")
	got, err := r.Recv(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 7, got)
	require.NoError(t, errors.Join(r.Close(), w.Close()))
	require.ErrorAs(t, fiber.NewRing(2, anything).Run(fibertest.Soon(t), make(chan int)), new(*fiber.EncodeError))

	for what, register := range map[string]func(){
		"already registered": func() {
			fiber.RegisterRing("reporting", nil, func(context.Context, *fiber.RingNode, int) error { return nil })
		},
		"without a name":      func() { fiber.RegisterRing(" ", nil, func(context.Context, *fiber.RingNode, int) error { return nil }) },
		"the function is nil": func() { fiber.RegisterRing[int]("nothing", nil, nil) },
		"its argument": func() {
			fiber.RegisterRing("chan", nil, func(context.Context, *fiber.RingNode, chan int) error { return nil })
		},
		"CPU": func() {
			fiber.RegisterRing("cpu", nil, func(context.Context, *fiber.RingNode, int) error { return nil }, meta.CPU(-1))
		},
	} {
		func() {
			defer func() {
				text := fmt.Sprint(recover())
				require.Contains(t, text, what)
				require.Contains(t, text, "ring_test.go:")
			}()
			register()
		}()
	}
	ctx = context.Background()
	for _, err := range []error{
		fiber.AllReduce(ctx, nil, []float32{1}), fiber.Broadcast(ctx, nil, 0, []float32{1}), (*fiber.RingNode)(nil).Barrier(ctx),
		second(fiber.AllGather(ctx, nil, []float32{1})), second(fiber.ReduceScatter(ctx, nil, []float32{1})),
	} {
		require.ErrorContains(t, err, "uninitialised RingNode")
	}
}

var (
	piping   = fiber.RegisterRing("piping", nil, func(context.Context, *fiber.RingNode, *fiber.Sender[int]) error { return nil })
	anything = fiber.RegisterRing("anything", nil, func(context.Context, *fiber.RingNode, any) error { return nil })
)

func second[T any](_ T, err error) error { return err }

// A ring that a child runs, with an error that goes two levels up.
var nesting = fiber.Register("nesting", func(ctx context.Context, f failing) (string, error) {
	ring := fiber.NewRing(3, fails)
	return ring.Name(), ring.Run(ctx, f)
})

func TestRingInAChild(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	for _, how := range []string{"kill", "error"} {
		q := rankReports(t)
		_, err := fiber.Apply(fibertest.Soon(t), pool, nesting, failing{how, 2, q})
		require.Len(t, collectAll(t, q, 2), 2)
		var failed *fiber.RingError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 2, failed.Rank)
		require.Equal(t, how == "kill", errors.As(err, new(*fiber.WorkerLostError)))
		var remote *fiber.RemoteError
		require.Equal(t, how == "error", errors.As(failed.Err, &remote))
		if remote != nil {
			require.Equal(t, failed.Ring+"/rank-2", remote.Worker)
			require.Equal(t, "at step 7: the ring is bent", remote.Message)
		}
		require.Equal(t, how == "error", errors.Is(err, errRing))
	}
}

var _ = fibertest.MainProgram("ring", func(ctx context.Context) error {
	fmt.Println("started")
	return fiber.NewRing(4, heedlessRing).Run(ctx, nil)
})

func TestKilledRootLeavesNoRing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		x := fibertest.Start(t, "ring")
		x.Says("started")
		fibertest.Eventually(t, fibertest.Patience, func() bool { return len(x.Children()) == 4 }, "4 ranks")
		stopped := x.Children()[1]
		require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
		x.SignalRoot(signal)
		x.NobodyLeft()
	}
}

// Rings come and go and leave nothing.
func TestManyRings(t *testing.T) {
	t.Parallel()
	var rings sync.WaitGroup
	for range 4 {
		rings.Go(func() {
			for range 5 {
				q := rankReports(t)
				if err := fiber.NewRing(3, reporting).Run(fibertest.Soon(t), q); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rings.Wait()
}
