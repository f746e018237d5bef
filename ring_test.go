//go:build unix

package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
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
		r, err := q.Get(soon(t))
		require.NoError(t, err)
		all[r.Rank] = r
	}
	left, err := q.Len(soon(t))
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
			require.NoError(t, ring.Run(soon(t), q))
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
				require.False(t, running(r.PID), "rank %d lives on", rank)
			}
			require.Equal(t, size, distinct(pidsOf(all)))
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
	require.NoError(t, ring.Run(soon(t), q))
	first := collectRanks(t, q, 2)
	require.NoError(t, ring.Run(soon(t), q))
	second := collectRanks(t, q, 2)
	require.Equal(t, 4, distinct(append(pidsOf(first), pidsOf(second)...)))
}

// A rank's port is its own: others that want any do not get it, and it can be
// listened at.
var listening = fiber.RegisterRing("listening", nil, func(ctx context.Context, node *fiber.RingNode, _ none) error {
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
	if err := fiber.Barrier(ctx, node); err != nil {
		return err
	}
	m := node.Members()[node.Rank()]
	l, err := net.Listen("tcp", net.JoinHostPort(m.IP, strconv.Itoa(m.Port)))
	if err != nil {
		return err
	}
	defer l.Close()
	if err := fiber.Barrier(ctx, node); err != nil {
		return err
	}
	right := node.Members()[node.Right().Rank()]
	c, err := net.Dial("tcp", net.JoinHostPort(right.IP, strconv.Itoa(right.Port)))
	if err != nil {
		return err
	}
	return errors.Join(c.Close(), fiber.Barrier(ctx, node))
})

func TestRingPorts(t *testing.T) {
	t.Parallel()
	require.NoError(t, fiber.NewRing(3, listening).Run(soon(t), none{}))
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
		return marking{File: os.Getenv("TEST_ORDER"), Line: "init"}.append()
	},
	func(ctx context.Context, node *fiber.RingNode, file string) error {
		return marking{File: file, Line: "run"}.append()
	})

func TestInitBeforeRun(t *testing.T) {
	file := tempFile(t)
	t.Setenv("TEST_ORDER", file)
	require.NoError(t, fiber.NewRing(3, ordered).Run(soon(t), file))
	require.Equal(t, []string{"init", "init", "init", "run", "run", "run"}, lines(t, file))
}

// failing is how a ring is to fail.
type failing struct {
	How  string
	Rank int // at which
	Q    *fiber.SimpleQueue[rankReport]
}

var errRing = fiber.RegisterError(errors.New("the ring is bent"))

// fails is a ring in which one rank fails while the others wait for it. They
// report what they get.
var fails = fiber.RegisterRing("fails",
	func(ctx context.Context, node *fiber.RingNode) error {
		if how, rank, _ := strings.Cut(os.Getenv("TEST_INIT"), " "); rank == strconv.Itoa(node.Rank()) {
			if how == "panic" {
				panic("init panics")
			}
			return errors.New("init fails")
		}
		return nil
	},
	func(ctx context.Context, node *fiber.RingNode, f failing) error {
		err := fiber.Barrier(ctx, node) // or the others may not have begun
		if node.Rank() == f.Rank {
			switch f.How {
			case "error":
				return fmt.Errorf("at step 7: %w", errRing)
			case "panic":
				panic("help")
			case "goexit":
				runtime.Goexit()
			case "exit":
				os.Exit(3)
			case "exit 0":
				os.Exit(0)
			case "kill":
				fmt.Fprintln(os.Stderr, "last words")
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "terminate":
				syscall.Kill(os.Getpid(), syscall.SIGTERM)
				<-ctx.Done()
				return ctx.Err()
			}
		}
		if err == nil {
			err = waitFor(ctx, node)
		}
		said := "nothing"
		if failed := (*fiber.RingError)(nil); errors.As(err, &failed) {
			said = fmt.Sprintf("%s rank %d", failed.Ring, failed.Rank)
			for what, target := range map[string]any{"remote": new(*fiber.RemoteError), "lost": new(*fiber.WorkerLostError)} {
				if errors.As(err, target) {
					said += " " + what
				}
			}
			if errors.Is(err, errRing) {
				said += " sentinel"
			}
		} else if err != nil {
			said = err.Error()
		}
		<-ctx.Done()
		if again := fiber.Barrier(context.Background(), node); fmt.Sprint(again) != fmt.Sprint(err) {
			said += ", then " + fmt.Sprint(again)
		}
		if cause := context.Cause(ctx); fmt.Sprint(cause) != fmt.Sprint(err) {
			said += ", the cause is " + fmt.Sprint(cause)
		}
		if again := node.Left().Send(context.Background(), 1); fmt.Sprint(again) != fmt.Sprint(err) {
			said += ", Send gives " + fmt.Sprint(again)
		}
		if putting := f.Q.Put(context.Background(), rankReport{Rank: node.Rank(), Text: said}); putting != nil {
			return putting
		}
		return err
	})

// waitFor does something that cannot end.
func waitFor(ctx context.Context, node *fiber.RingNode) error {
	var got int
	switch node.Rank() % 4 {
	case 0:
		return node.Left().Recv(ctx, &got)
	case 1:
		return node.Right().Recv(context.Background(), &got)
	default:
		return fiber.AllReduce(ctx, node, make([]float64, 1000))
	}
}

func TestFailingRank(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		how  string
		said string // by the others
		text string // of Run's error
	}{
		{"error", "remote sentinel", "at step 7: the ring is bent"},
		{"panic", "remote", "panicked: help"},
		{"goexit", "remote", "Goexit"},
		{"exit", "lost", "exit code 3"},
		{"exit 0", "lost", "exit code 0"},
		{"kill", "lost", "killed"},
		{"terminate", "lost", "terminated"},
	} {
		t.Run(test.how, func(t *testing.T) {
			for _, rank := range []int{0, 2} {
				q := rankReports(t)
				ring := fiber.NewRing(4, fails)
				err := ring.Run(soon(t), failing{test.how, rank, q})
				var failed *fiber.RingError
				require.ErrorAs(t, err, &failed)
				require.Equal(t, ring.Name(), failed.Ring)
				require.Equal(t, rank, failed.Rank)
				require.ErrorContains(t, err, test.text)
				if remote := (*fiber.RemoteError)(nil); strings.Contains(test.said, "remote") {
					require.ErrorAs(t, err, &remote)
					require.Equal(t, "fails", remote.Func)
					require.Equal(t, fmt.Sprintf("%s/rank-%d", ring.Name(), rank), remote.Worker)
				}
				if lost := (*fiber.WorkerLostError)(nil); strings.Contains(test.said, "lost") {
					require.ErrorAs(t, err, &lost)
					require.Equal(t, "fails", lost.Func)
					require.Equal(t, fmt.Sprintf("%s/rank-%d", ring.Name(), rank), lost.Worker)
					if test.how == "kill" {
						require.Equal(t, []string{"last words"}, lost.Stderr)
					}
				}
				require.Equal(t, strings.Contains(test.said, "sentinel"), errors.Is(err, errRing))
				for _, r := range slices.DeleteFunc(collectAll(t, q, 3), func(r rankReport) bool { return r.Rank == rank }) {
					require.Equal(t, fmt.Sprintf("%s rank %d %s", ring.Name(), rank, test.said), r.Text, "rank %d", r.Rank)
				}
			}
		})
	}
}

// collectAll gets n reports.
func collectAll(t testing.TB, q *fiber.SimpleQueue[rankReport], n int) (all []rankReport) {
	t.Helper()
	for range n {
		r, err := q.Get(soon(t))
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func TestFailingInit(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Setenv("TEST_INIT", how+" 1")
		var failed *fiber.RingError
		err := fiber.NewRing(3, fails).Run(soon(t), failing{Rank: -1, Q: rankReports(t)})
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 1, failed.Rank)
		var remote *fiber.RemoteError
		require.ErrorAs(t, err, &remote)
		require.Contains(t, remote.Message, "init "+map[string]string{"error": "fails", "panic": "panics"}[how])
		require.Equal(t, how == "panic", remote.Stack != "")
	}
}

// reducing is a ring that adds up for ever.
var reducing = fiber.RegisterRing("reducing", nil, func(ctx context.Context, node *fiber.RingNode, q *fiber.SimpleQueue[rankReport]) error {
	xs := make([]float32, 4<<20)
	for i := 0; ; i++ {
		err := fiber.AllReduce(ctx, node, xs, fiber.Mean)
		if i == 0 || err != nil {
			text := "begun"
			if err != nil {
				text = err.Error()
			}
			if failed := q.Put(context.Background(), rankReport{Rank: node.Rank(), PID: os.Getpid(), Text: text}); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
	}
})

// A rank is lost in the middle of an AllReduce.
func TestLostRank(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		silent string // heartbeat_timeout
	}{
		{"killed", syscall.SIGKILL, "1h"},
		{"stopped", syscall.SIGSTOP, "10s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && test.signal == syscall.SIGSTOP {
				t.Skip("it takes as long as a heartbeat's timeout")
			}
			t.Parallel()
			if alone(t, "FIBER_HEARTBEAT_TIMEOUT="+test.silent) {
				return
			}
			const size, victim = 8, 5
			q := rankReports(t)
			ended := make(chan error, 1)
			ring := fiber.NewRing(size, reducing)
			go func() { ended <- ring.Run(soon(t), q) }()
			begun := collectRanks(t, q, size)
			require.NoError(t, syscall.Kill(begun[victim].PID, test.signal))
			for _, r := range collectAll(t, q, size-1) {
				require.NotEqual(t, victim, r.Rank)
				require.Contains(t, r.Text, fmt.Sprintf("%s failed at rank %d", ring.Name(), victim))
				require.Contains(t, r.Text, "was lost")
			}
			err := <-ended
			var failed *fiber.RingError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, victim, failed.Rank)
			require.ErrorAs(t, err, new(*fiber.WorkerLostError))
			for _, r := range begun {
				require.False(t, running(r.PID), "rank %d lives on", r.Rank)
			}
		})
	}
}

func TestCancelledRing(t *testing.T) {
	t.Parallel()
	q := rankReports(t)
	ctx, cancel := context.WithCancel(soon(t))
	ended := make(chan error, 1)
	go func() { ended <- fiber.NewRing(4, reducing).Run(ctx, q) }()
	begun := collectRanks(t, q, 4)
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	for _, r := range begun {
		require.False(t, running(r.PID))
	}
	for _, r := range collectAll(t, q, 4) {
		require.Contains(t, r.Text, "was ended: context canceled")
	}
}

func TestRingCancelledWhileStarting(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		require.Equal(t, context.DeadlineExceeded, fiber.NewRing(3, heedlessRing).Run(ctx, nil))
		cancel()
	}
}

// heedlessRing is one that does not look at its context. It reports first, if it
// is to.
var heedlessRing = fiber.RegisterRing("heedless", nil, func(ctx context.Context, node *fiber.RingNode, q *fiber.SimpleQueue[rankReport]) error {
	if q != nil {
		if err := q.Put(ctx, rankReport{Rank: node.Rank()}); err != nil {
			return err
		}
	}
	time.Sleep(time.Hour)
	return nil
})

func TestHeedlessRanksAreKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(soon(t))
	q := rankReports(t)
	ended := make(chan error, 1)
	go func() { ended <- fiber.NewRing(2, heedlessRing).Run(ctx, q) }()
	collectRanks(t, q, 2)
	begun := time.Now()
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	require.Greater(t, time.Since(begun), testGrace/2)
}

// A rank that cannot start ends the others.
func TestRingThatCannotStart(t *testing.T) {
	t.Parallel()
	var failed *fiber.RingError
	err := fiber.NewRing(2, greedy).Run(soon(t), none{})
	require.ErrorAs(t, err, &failed)
	var launch *fiber.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Contains(t, launch.Error(), "GPU")
}

var greedy = fiber.RegisterRing("greedy", nil, func(context.Context, *fiber.RingNode, none) error { return nil }, meta.GPU(1000))

func TestRingsBadInput(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, -1} {
		err := fiber.NewRing(size, reporting).Run(soon(t), nil)
		require.EqualError(t, err, fmt.Sprintf("fiber: NewRing(%d): the size must be at least 1", size))
	}
	err := fiber.NewRing[none](2, nil).Run(soon(t), none{})
	require.ErrorContains(t, err, "fiber: NewRing: the function is nil")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, context.Canceled, fiber.NewRing(2, heedlessRing).Run(ctx, nil))

	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	require.ErrorContains(t, fiber.NewRing(2, piping).Run(soon(t), w), "the end of a pipe can be in one process only")
	require.NoError(t, w.Send(soon(t), 7), "it is still here")
	got, err := r.Recv(soon(t))
	require.NoError(t, err)
	require.Equal(t, 7, got)
	require.NoError(t, errors.Join(r.Close(), w.Close()))
	require.ErrorAs(t, fiber.NewRing(2, anything).Run(soon(t), make(chan int)), new(*fiber.EncodeError))

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
		fiber.AllReduce(ctx, nil, []float32{1}), fiber.Broadcast(ctx, nil, 0, []float32{1}), fiber.Barrier(ctx, nil),
		second(fiber.AllGather(ctx, nil, []float32{1})), second(fiber.ReduceScatter(ctx, nil, []float32{1})),
	} {
		require.ErrorContains(t, err, "the node is nil")
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
	pool := newPool(t, 1)
	for _, how := range []string{"kill", "error"} {
		q := rankReports(t)
		_, err := fiber.Apply(soon(t), pool, nesting, failing{how, 2, q})
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

var _ = mainProgram("ring", func(ctx context.Context) error {
	fmt.Println("started")
	return fiber.NewRing(4, heedlessRing).Run(ctx, nil)
})

func TestKilledRootLeavesNoRing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		x := start(t, "ring")
		x.says("started")
		eventually(t, patience, func() bool { return len(x.children()) == 4 }, "4 ranks")
		stopped := x.children()[1]
		require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
		x.root(signal)
		x.nobodyLeft()
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
				if err := fiber.NewRing(3, reporting).Run(soon(t), q); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rings.Wait()
}
