//go:build unix

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

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
		err := node.Barrier(ctx) // or the others may not have begun
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
		if again := node.Barrier(context.Background()); fmt.Sprint(again) != fmt.Sprint(err) {
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
				err := ring.Run(fibertest.Soon(t), failing{test.how, rank, q})
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
		r, err := q.Get(fibertest.Soon(t))
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func TestFailingInit(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Setenv("TEST_INIT", how+" 1")
		var failed *fiber.RingError
		err := fiber.NewRing(3, fails).Run(fibertest.Soon(t), failing{Rank: -1, Q: rankReports(t)})
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
			if fibertest.Alone(t, "FIBER_HEARTBEAT_TIMEOUT="+test.silent) {
				return
			}
			const size, victim = 8, 5
			q := rankReports(t)
			ended := make(chan error, 1)
			ring := fiber.NewRing(size, reducing)
			go func() { ended <- ring.Run(fibertest.Soon(t), q) }()
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
				require.False(t, fibertest.Running(r.PID), "rank %d lives on", r.Rank)
			}
		})
	}
}

func TestCancelledRing(t *testing.T) {
	t.Parallel()
	q := rankReports(t)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	ended := make(chan error, 1)
	go func() { ended <- fiber.NewRing(4, reducing).Run(ctx, q) }()
	begun := collectRanks(t, q, 4)
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	for _, r := range begun {
		require.False(t, fibertest.Running(r.PID))
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
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	q := rankReports(t)
	ended := make(chan error, 1)
	go func() { ended <- fiber.NewRing(2, heedlessRing).Run(ctx, q) }()
	collectRanks(t, q, 2)
	begun := time.Now()
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	require.Greater(t, time.Since(begun), fibertest.Grace/2)
}

// A rank that cannot start ends the others.
func TestRingThatCannotStart(t *testing.T) {
	t.Parallel()
	var failed *fiber.RingError
	err := fiber.NewRing(2, greedy).Run(fibertest.Soon(t), fibertest.None{})
	require.ErrorAs(t, err, &failed)
	var launch *fiber.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Contains(t, launch.Error(), "GPU")
}
