package fiber

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/tree"
)

// Main runs a program: it initialises Fiber, calls run, ends the processes that
// run has left running, and exits. It never returns. In a process that Fiber
// started, Main does that process's work instead, so nothing with a side effect
// should come before it.
//
// The first SIGINT or SIGTERM ends the context. If run has not returned when
// shutdown_grace (2 s) has passed, all processes that the program has started
// are asked to end. A second signal ends the program at once.
//
// The exit code is 0 when run returns nil, 1 when run returns an error, which
// Main prints to stderr with all that Fiber's errors in it say, and 128+n when
// signal n ended the program.
//
// Of several Configs, here and for Init, the last one counts.
func Main(run func(ctx context.Context) error, cfg ...Config) {
	os.Exit(runMain(run, last(cfg)))
}

// elsewhere runs this program somewhere else if the configuration asks for it.
// It is nil in builds that cannot.
var elsewhere func(config.Config) (code int, gone bool)

func runMain(run func(ctx context.Context) error, code Config) int {
	if elsewhere != nil && !tree.Started() {
		// Init reports what is wrong with the configuration.
		if cfg, _, err := config.Load(config.Config(code), config.Sources{}); err == nil {
			if code, gone := elsewhere(cfg); gone {
				return code
			}
		}
	}
	if err := Init(code); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p := current.Load()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var got atomic.Int32
	go func() {
		s := <-signals
		got.Store(int32(s.(syscall.Signal)))
		cancel()
		tell := time.NewTimer(p.node.Config.ShutdownGrace)
		defer tell.Stop()
		for {
			select {
			case <-tell.C:
				p.node.Terminate()
			case s = <-signals:
				p.node.Kill()
				p.node.RemoveDirectory()
				os.Exit(128 + int(s.(syscall.Signal)))
			}
		}
	}()
	err := run(ctx)
	Shutdown(context.Background())
	p.node.Forwarded(ctx)
	if s := got.Load(); s != 0 {
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) && !errors.Is(err, tree.ErrShutdown) {
			fmt.Fprintln(os.Stderr, whole(err))
		}
		return 128 + int(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, whole(err))
		return 1
	}
	return 0
}

// Init makes this process the root of a run. In a process that Fiber started,
// it does that process's work instead and never returns. TestMain functions,
// and programs that do not use Main, call Init first and Shutdown last. Init
// returns an error if the configuration is invalid, or if it is called a second
// time without a Shutdown in between.
func Init(cfg ...Config) error {
	registry.Seal()
	if tree.Started() {
		os.Exit(runChild())
	}
	initLock.Lock()
	defer initLock.Unlock()
	if current.Load() != nil {
		return errors.New("fiber: Init was called before; call it once, or call Shutdown in between")
	}
	settings, log, err := configure(last(cfg))
	if err != nil {
		return err
	}
	b, err := newBackend(settings)
	if err != nil {
		return err
	}
	node, err := tree.NewRoot(settings, b, log)
	if err != nil {
		return err
	}
	enter(node)
	return nil
}

// last returns the last Config, or a zero one.
func last(cfg []Config) (code Config) {
	if len(cfg) > 0 {
		code = cfg[len(cfg)-1]
	}
	return code
}

// Shutdown ends the processes that this one has started: it asks them to end,
// kills them after shutdown_grace or when ctx ends, and waits until they have
// gone. It then kills the programs that [Command] has started here. After
// Shutdown nothing can be started until the next Init. Without Init, Shutdown
// is a no-op.
func Shutdown(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return leave(ctx)
}
