package fiber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/logger"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// runChild does the work that this process was started for and returns its
// exit code.
func runChild() int {
	node, err := comeUp()
	if err != nil {
		if !errors.Is(err, tree.ErrParentGone) {
			fmt.Fprintln(self.Of().Stderr, err)
		}
		if unreachable := (*tree.UnreachableError)(nil); errors.As(err, &unreachable) {
			return unreachable.ExitCode()
		}
		return 1
	}
	parent := node.Parent
	enter(node, func(time.Duration) {})
	ctx, cancel := context.WithCancel(self.Of().Context())
	defer cancel()
	stop := &stopping{node: node, parent: parent, cancel: cancel, over: make(chan struct{})}
	signals := make(chan os.Signal, 4)
	self.Of().Notify(signals, syscall.SIGINT, syscall.SIGTERM) // before the function begins
	go stop.obey(signals)
	go reportStatus(here(), parent)
	code := 1
	switch parent.Assign.Role {
	case wire.RoleFunction:
		code = runFunction(ctx, parent)
	case wire.RoleWorker:
		code = runWorker(ctx, parent, stop)
	case wire.RoleManager:
		code = runManager(ctx, parent)
	case wire.RoleRing:
		code = runRing(ctx, parent, stop)
	default:
		fmt.Fprintf(self.Of().Stderr, "fiber: this process was started as a %q, a role that this build does not know\n", parent.Assign.Role)
		return 1
	}
	words, done := context.WithTimeout(context.Background(), lastWords)
	defer done()
	parent.Goodbye(words)
	stop.conclude()
	return code
}

// comeUp connects to the parent and makes this process's node.
func comeUp() (*tree.Node, error) {
	parent, err := tree.Report(context.Background())
	if err != nil {
		return nil, err
	}
	b := parent.Relay()
	if cfg := &parent.Assign.Config; b != nil && !config.Stream(cfg.LogFile) { // on another machine: the file is the root's
		cfg.LogFile = config.Stderr
	}
	log, err := openLog(parent.Assign.Config, parent.Assign.Name)
	if err != nil {
		return nil, err
	}
	if parent.Assign.Logs {
		log = logger.Up(parent.Assign.Name, config.Level(parent.Assign.Config.LogLevel), parent.Post, log)
	}
	if b == nil {
		if b, err = newBackend(parent.Assign.Config, log); err != nil {
			return nil, err
		}
	}
	return tree.NewChild(parent, b, log)
}

// reportStatus reports to the parent how much memory is in use, when that
// changes.
func reportStatus(p *process, parent *tree.Parent) {
	var told wire.Status
	tick := time.NewTicker(observe.SampleInterval)
	defer tick.Stop()
	for {
		now := wire.Status{Resident: local.Resident(self.Of().PID), Shared: p.shared.size(), CPU: local.Processor()}
		if apart(now.Resident, told.Resident) || apart(now.Shared, told.Shared) || p.node.Events.On() && now.CPU != told.CPU {
			told = now
			parent.Post(wire.MustPack(wire.KindStatus, now)...)
		}
		select {
		case <-parent.Done():
			return
		case <-tick.C:
		}
	}
}

// apart reports whether two sizes differ by more than a mebibyte.
func apart(a, b int64) bool { return max(a-b, b-a) > 1<<20 }

// runFunction runs the assigned function.
func runFunction(ctx context.Context, parent *tree.Parent) int {
	go obeyParent(parent, func(wire.Kind, [][]byte) {})
	failure := call(ctx, registry.Function, parent.Assign.Func, parent.Value)
	leave(context.Background())
	return finish(parent, failure)
}

// call runs what is registered with one encoded argument.
func call(ctx context.Context, kind registry.Kind, name string, value [][]byte) (failure *wire.Error) {
	f, ok := registry.Find(kind, name).(*registry.Func)
	if !ok {
		return flatten(name, fmt.Errorf("%s %q is not registered in this process", kind, name))
	}
	batch, err := f.Decode(value, -1)
	if err != nil {
		return flatten(name, err)
	}
	if batch.Len() != 1 {
		return flatten(name, wire.ErrMalformed)
	}
	return failureOf(name, func() error { return batch.Run(ctx, 0) })
}

// runWorker serves a pool until it is told to stop. It also listens while its
// setups run, since they may send requests to the parent.
func runWorker(ctx context.Context, parent *tree.Parent, stop *stopping) int {
	w := worker.Serve(ctx, parent, worker.Options{Concurrency: parent.Assign.Concurrency, Error: flatten})
	stop.at(w.Leave, w.Abort)
	if failure := setUp(ctx, parent); failure != nil {
		here().closeStates()
		return finish(parent, failure)
	}
	if err := parent.Post(wire.MustPack(wire.KindReady, nil)...); err != nil {
		return 1
	}
	if err := w.Wait(); err != nil {
		return 1 // the parent is gone
	}
	here().closeStates()
	here().handTime = here().node.Config.ShutdownGrace * 3 / 4 // then it may be killed, since its pool is closed
	leave(context.Background())
	return 0
}

// setUp runs a worker's setups, until one fails.
func setUp(ctx context.Context, parent *tree.Parent) *wire.Error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-parent.Done():
			self.Of().Exit(1) // the parent is gone
		case <-done:
		}
	}()
	value := parent.Value
	for _, s := range parent.Assign.Setups {
		if s.Frames > len(value) {
			return flatten(s.Func, wire.ErrMalformed)
		}
		if failure := call(ctx, registry.Kind(s.Kind), s.Func, value[:s.Frames]); failure != nil {
			return failure
		}
		value = value[s.Frames:]
	}
	return nil
}
