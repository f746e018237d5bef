//go:build unix

package waits_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// part is what a program's process plays that makes the call: a rank of a ring, a
// child of the home, or the root itself. The test and the process speak to each
// other in files.
type part struct {
	Call   string
	Dir    string
	Size   int
	Beside bool
}

// elsewhere is a row whose call a program makes, with an environment.
func elsewhere(name, how string, k kind, call string, but map[situation]outcome, env ...string) row {
	return row{name: name, how: how, kind: k, at: onHere, but: but, once: true, make: func(t *testing.T, s *stage) trial {
		p := part{Call: call, Dir: t.TempDir(), Size: s.size, Beside: s.in == beside}
		arg := fibertest.Sure(json.Marshal(p))(t)
		peer := p.file("peer")
		x := fibertest.Start(t, "waits", append(env, fibertest.ArgKey+"="+string(arg), peerKey+"="+peer)...)
		if !slices.Contains(env, hang) { // else the call itself starts the peer
			x.Says("ready")
			s.finds(t, peer)()
		}
		finds := s.finds(t, peer)
		return trial{call: func(ctx context.Context) error {
			if ctx.Err() != nil {
				fibertest.OpenGate(t, p.file("cancel"))
			}
			fibertest.OpenGate(t, p.file("begin"))
			stop := context.AfterFunc(ctx, func() { os.WriteFile(p.file("cancel"), nil, 0o644) })
			defer stop()
			if err := fibertest.Await(t.Context(), p.file("outcome")); err != nil {
				return err
			}
			out := new(told)
			if err := json.Unmarshal(fibertest.Sure(os.ReadFile(p.file("outcome")))(t), out); err != nil {
				return err
			}
			return out
		}, waits: func() bool {
			_, err := os.Stat(p.file("waits"))
			return err == nil && finds()
		}}
	}}
}

// finds returns what looks for the peer's pid in a file, and says whether it is
// there.
func (s *stage) finds(t *testing.T, file string) func() bool {
	return func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		s.pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		require.NoError(t, err)
		return true
	}
}

// peerKey names the file that the peer's pid is written to.
const peerKey = "TEST_PEER"

func (p part) file(name string) string { return filepath.Join(p.Dir, name) }

// write writes a file that others read when it is there.
func (p part) write(name, text string) error {
	if err := os.WriteFile(p.file(name+".new"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(p.file(name+".new"), p.file(name))
}

// act makes the call when the test says so, cancels it when the test says so, and
// writes what has come of it. others is called all the time, if the test wants
// that, and must go on.
func (p part) act(call, others func(context.Context) error) error {
	if err := fibertest.Await(context.Background(), p.file("begin")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := os.Stat(p.file("cancel")); err == nil {
		cancel()
	}
	var rounds atomic.Int64
	failed := make(chan error, 1)
	goOn := func() error {
		was := rounds.Load()
		for begun := time.Now(); p.Beside && rounds.Load() < was+10; time.Sleep(time.Millisecond) {
			select {
			case err := <-failed:
				if as[*fiber.RingError](err) {
					return nil // a collective that is given up ends the ring
				}
				return fmt.Errorf("the others: %w", err)
			default:
			}
			if time.Since(begun) > patience {
				return errors.New("the others do not go on")
			}
		}
		return nil
	}
	if p.Beside {
		going, end := context.WithCancel(context.Background())
		var done sync.WaitGroup
		defer done.Wait()
		defer end()
		done.Go(func() {
			for going.Err() == nil {
				if err := others(going); err != nil {
					failed <- err
					return
				}
				rounds.Add(1)
			}
		})
	}
	err := goOn()
	if err == nil {
		c := trial{call: call}.begin(ctx)
		go func() {
			for !c.parked() {
				time.Sleep(5 * time.Millisecond)
			}
			p.write("waits", "")
		}()
		go func() { fibertest.Await(ctx, p.file("cancel")); cancel() }()
		<-c.done
		if err = goOn(); err == nil {
			err = c.err
		}
	}
	text, err := json.Marshal(told{Is: meaning(err), Text: fmt.Sprint(err)})
	if err != nil {
		return err
	}
	return p.write("outcome", string(text))
}

var _ = fibertest.MainProgram("waits", func(ctx context.Context) error {
	var p part
	if err := json.Unmarshal([]byte(os.Getenv(fibertest.ArgKey)), &p); err != nil {
		return err
	}
	ready := func(pid int) error {
		defer fmt.Println("ready")
		return os.WriteFile(os.Getenv(peerKey), []byte(strconv.Itoa(pid)+"\n"), 0o644)
	}
	if call := rootCalls[p.Call]; call != nil {
		return p.act(call, nil)
	}
	if rankCalls[p.Call].call != nil {
		return fiber.NewRing(2, ranks).Run(ctx, p)
	}
	if p.Call == "Shutdown" {
		child := fiber.NewProcess(lingering, p)
		if err := errors.Join(child.Start(ctx), fibertest.Await(ctx, p.file("below")), ready(child.PID())); err != nil {
			return err
		}
		return p.act(fiber.Shutdown, nil)
	}
	h, err := newHome(ctx)
	if err != nil {
		return err
	}
	child := fiber.NewProcess(belowHome, inHome{p, h})
	if err := errors.Join(child.Start(ctx), fibertest.Await(ctx, p.file("below")), ready(os.Getpid())); err != nil {
		return err
	}
	return child.Join(ctx)
}, fiber.Config{CancelGrace: time.Hour, HeartbeatTimeout: time.Hour})

// rootCalls are those of a root whose children never say anything.
var rootCalls = map[string]func(context.Context) error{
	"Process.Start": func(ctx context.Context) error { return fiber.NewProcess(fibertest.Square, 1).Start(ctx) },
	"NewManager":    func(ctx context.Context) error { return only(fiber.NewManager(ctx)) },
	"Ring.Run":      func(ctx context.Context) error { return fiber.NewRing(1, ranks).Run(ctx, part{}) },
	"Apply": func(ctx context.Context) error {
		pool, err := fiber.NewPool(1)
		if err != nil {
			return err
		}
		defer pool.Terminate()
		return only(fiber.Apply(ctx, pool, fibertest.Square, 1))
	},
}

// lingering does not heed its context. A process that has yet to begin its function would die of Shutdown's SIGTERM.
var lingering = fiber.Register("lingering", func(_ context.Context, p part) (fibertest.None, error) {
	err := p.write("below", "")
	time.Sleep(time.Hour)
	return fibertest.None{}, err
})

// hang has a program's children say nothing but who they are.
var hang = func() string {
	script, err := filepath.Abs("testdata/hang.sh")
	if err != nil {
		panic(err)
	}
	return "FIBER_EXECUTABLE=" + script
}()

// ofStart is a row about something that starts a process, which hangs.
func ofStart(name, how string, is ...string) row {
	but := map[situation]outcome{beside: never("nobody uses the connection of a process that is not up"),
		killed: outcome{is: is}, ended: outcome{is: is}}
	if len(is) == 0 {
		but[killed], but[ended] = never("the pool starts another worker"), never("the pool starts another worker")
	}
	return elsewhere(name, how, waits, name, but, hang)
}

// rankCall is what rank 0 of a ring of two does, which the other rank leaves
// waiting. Meanwhile the two may do something else.
type rankCall struct {
	fill   int // the size of a message to the right before, 0 for none
	call   func(context.Context, *fiber.RingNode, []byte) error
	others func(context.Context, *fiber.RingNode) error
}

var rankCalls = map[string]rankCall{
	"AllGather": ofCollective(func(ctx context.Context, n *fiber.RingNode, xs []float64) error {
		return only(fiber.AllGather(ctx, n, xs))
	}),
	"AllReduce": ofCollective(func(ctx context.Context, n *fiber.RingNode, xs []float64) error { return fiber.AllReduce(ctx, n, xs) }),
	"Barrier":   ofCollective(func(ctx context.Context, n *fiber.RingNode, _ []float64) error { return n.Barrier(ctx) }),
	"BroadcastFrom": ofCollective(func(ctx context.Context, n *fiber.RingNode, xs []float64) error {
		return fiber.Broadcast(ctx, n, 1, xs)
	}),
	"BroadcastTo": ofCollective(func(ctx context.Context, n *fiber.RingNode, xs []float64) error {
		return fiber.Broadcast(ctx, n, 0, xs)
	}),
	"ReduceScatter": ofCollective(func(ctx context.Context, n *fiber.RingNode, xs []float64) error {
		return only(fiber.ReduceScatter(ctx, n, xs))
	}),
	"Recv": {call: func(ctx context.Context, n *fiber.RingNode, _ []byte) error {
		var v []byte
		return n.Right().Recv(ctx, &v)
	}, others: sendRight},
	"SendFull": {fill: 17 << 20, call: func(ctx context.Context, n *fiber.RingNode, _ []byte) error {
		return n.Right().Send(ctx, make([]byte, huge)) // what is smaller has room on the way
	}, others: func(ctx context.Context, n *fiber.RingNode) error { return n.Barrier(ctx) }},
	"Send": {call: func(ctx context.Context, n *fiber.RingNode, v []byte) error { return n.Right().Send(ctx, v) }},
}

func ofCollective(call func(context.Context, *fiber.RingNode, []float64) error) rankCall {
	return rankCall{call: func(ctx context.Context, n *fiber.RingNode, v []byte) error {
		return call(ctx, n, make([]float64, len(v)/8))
	}, others: sendRight}
}

func sendRight(ctx context.Context, n *fiber.RingNode) error { return n.Right().Send(ctx, 1) }

var ranks = fiber.RegisterRing("waits", nil, func(ctx context.Context, n *fiber.RingNode, p part) error {
	is := rankCalls[p.Call]
	if n.Rank() == 1 {
		for p.Beside {
			var err error
			if is.fill > 0 {
				err = n.Barrier(ctx)
			} else {
				err = n.Left().Recv(ctx, new(int))
			}
			if err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if is.fill > 0 {
		for range 2 { // one waits there, and the neighbour's connection holds another
			if err := n.Right().Send(ctx, make([]byte, is.fill)); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(os.Getenv(peerKey), []byte(strconv.Itoa(n.Members()[1].PID)+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Println("ready")
	return p.act(func(ctx context.Context) error { return is.call(ctx, n, make([]byte, p.Size)) },
		func(ctx context.Context) error { return is.others(ctx, n) })
})

// ofRank is a row about what a rank does.
func ofRank(name, how string, k kind, call string, but map[situation]outcome) row {
	if but == nil {
		but = map[situation]outcome{killed: is("ring", "lost"), ended: is("ring", "lost")}
	}
	return elsewhere(name, how, k, call, but)
}

// home is what the root of a program has made, which its child uses.
type home struct {
	Others, Empty, Full *fiber.SimpleQueue[[]byte]
	End, FullEnd        *conn
	Value               *fiber.Shared[[]byte]
}

type inHome struct {
	Part part
	Home home
}

func newHome(ctx context.Context) (h home, err error) {
	var end, fullEnd *conn
	all := []error{}
	must := func(err error) { all = append(all, err) }
	h.Others, err = fiber.NewSimpleQueue[[]byte]()
	must(err)
	h.Empty, err = fiber.NewSimpleQueue[[]byte]()
	must(err)
	h.Full, err = fiber.NewSimpleQueue[[]byte](fiber.WithCapacity(1))
	must(err)
	must(h.Full.Put(ctx, nil))
	h.End, end, err = fiber.Pipe[[]byte]()
	must(err)
	h.FullEnd, fullEnd, err = fiber.Pipe[[]byte]()
	must(err)
	h.Value, err = fiber.Share(ctx, make([]byte, big))
	must(err)
	keep(h, end, fullEnd)
	return h, errors.Join(all...)
}

var homeCalls = map[string]func(context.Context, home, []byte) error{
	"Get":      func(ctx context.Context, h home, _ []byte) error { return only(h.Empty.Get(ctx)) },
	"Len":      func(ctx context.Context, h home, _ []byte) error { return only(h.Empty.Len(ctx)) },
	"Put":      func(ctx context.Context, h home, v []byte) error { return h.Empty.Put(ctx, v) },
	"PutFull":  func(ctx context.Context, h home, v []byte) error { return h.Full.Put(ctx, v) },
	"PutMany":  func(ctx context.Context, h home, v []byte) error { return h.Empty.PutMany(ctx, [][]byte{v, v}) },
	"Recv":     func(ctx context.Context, h home, _ []byte) error { return only(h.End.Recv(ctx)) },
	"SendFull": func(ctx context.Context, h home, v []byte) error { return h.FullEnd.Send(ctx, v) },
	"Fetch":    func(ctx context.Context, h home, _ []byte) error { return only(h.Value.Get(ctx)) },
	"Join":     func(ctx context.Context, _ home, _ []byte) error { return fiber.ParentProcess().Join(ctx) },
}

// belowHome is a child of its objects' home.
var belowHome = fiber.Register("belowHome", func(ctx context.Context, in inHome) (fibertest.None, error) {
	for range 256 {
		if err := in.Home.FullEnd.Send(ctx, nil); err != nil {
			return fibertest.None{}, err
		}
	}
	// The connection to the parent's objects is there before the parent is stopped.
	if err := only(in.Home.Others.Len(ctx)); err != nil {
		return fibertest.None{}, err
	}
	if err := in.Part.write("below", ""); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, in.Part.act(func(ctx context.Context) error {
		return homeCalls[in.Part.Call](ctx, in.Home, make([]byte, in.Part.Size))
	}, func(ctx context.Context) error {
		if err := in.Home.Others.Put(ctx, nil); err != nil {
			return err
		}
		return only(in.Home.Others.Get(ctx))
	})
})

// belowIt is a row about what a child does with what its parent has made.
func belowIt(name, how string, k kind, call string) row {
	dies := never("a child ends with its parent")
	if how != "" {
		how = ", " + how
	}
	return elsewhere(name, "in a child of the home"+how, k, call, map[situation]outcome{killed: dies, ended: dies})
}

var programs = []row{
	ofStart("Process.Start", "", "launch"),
	ofStart("NewManager", "", "launch"),
	ofStart("Ring.Run", "", "launch", "ring"),
	ofStart("Apply", "before a worker is up"),
	elsewhere("Shutdown", "", waits, "Shutdown", map[situation]outcome{before: is("nil"), meanwhile: is("nil"), stopped: is("nil"), killed: is("nil"),
		beside: never("nobody else waits on a connection for it"), ended: never("Shutdown tells it to end")}, "FIBER_SHUTDOWN_GRACE=1h"),
	ofRank("AllGather", "", waitsWith, "AllGather", nil),
	ofRank("AllReduce", "", waitsWith, "AllReduce", nil),
	ofRank("RingNode.Barrier", "", waits, "Barrier", nil),
	ofRank("Broadcast", "from the peer", waits, "BroadcastFrom", nil),
	ofRank("Broadcast", "to the peer", carries, "BroadcastTo", nothingBut(large, "it returns when the numbers have left")),
	ofRank("ReduceScatter", "", waitsWith, "ReduceScatter", nil),
	ofRank("Neighbour.Recv", "", waits, "Recv", nil),
	ofRank("Neighbour.Send", "full", waits, "SendFull", nil),
	ofRank("Neighbour.Send", "empty", carries, "Send", nothingBut(large, "it returns when the value has left")),
	belowIt("SimpleQueue.Get", "", waits, "Get"),
	belowIt("SimpleQueue.Len", "", asks, "Len"),
	belowIt("SimpleQueue.Put", "empty", carries, "Put"),
	belowIt("SimpleQueue.Put", "full", waitsWith, "PutFull"),
	belowIt("SimpleQueue.PutMany", "", carries, "PutMany"),
	belowIt("Conn.Recv", "", waits, "Recv"),
	belowIt("Conn.Send", "", waitsWith, "SendFull"),
	belowIt("Shared.Get", "", asks, "Fetch"),
	belowIt("Process.Join", "", waits, "Join"),
}
