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
	"github.com/fiber-go/fiber/internal/tree"
)

// InitOption is an option of Main and Init: a Config.
type InitOption interface{ applyInit(*Config) }

func (c Config) applyInit(to *Config) { *to = c }

// Main runs a program: it initialises Fiber, calls run, ends what run has
// left running, and exits. It never returns. In a process that Fiber started
// it does that process's work instead, so nothing that has an effect should
// come before it.
//
// The context ends at the first SIGINT or SIGTERM; everything the program
// started is then told to end within two seconds, and a second signal ends
// the program at once. The exit code is 0 when run returns nil, 1 when it
// returns an error, which is printed to stderr, and 128+n when signal n ended
// it.
func Main(run func(ctx context.Context) error, opts ...InitOption) {
	os.Exit(runMain(run, opts))
}

// elsewhere, where the build has it, runs this program somewhere else than
// here, if that is what the configuration means.
var elsewhere func(config.Config) (code int, gone bool)

func runMain(run func(ctx context.Context) error, opts []InitOption) int {
	if elsewhere != nil && !tree.Started() {
		// Init says what is wrong with the configuration.
		if cfg, _, err := config.Load(config.Config(given(opts)), config.Sources{}); err == nil {
			if code, gone := elsewhere(cfg); gone {
				return code
			}
		}
	}
	if err := Init(opts...); err != nil {
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
			fmt.Fprintln(os.Stderr, err)
		}
		return 128 + int(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Init makes this process the root of a run, or, when Fiber started it, does
// its work and never returns. Programs that do not use Main, and TestMain
// functions, call it first thing, and Shutdown last. A second call without a
// Shutdown between is an error, as is a configuration that does not hold.
func Init(opts ...InitOption) error {
	if tree.Started() {
		os.Exit(runChild())
	}
	initLock.Lock()
	defer initLock.Unlock()
	if current.Load() != nil {
		return errors.New("fiber: Init was called before; call it once, or Shutdown between")
	}
	cfg, log, err := configure(given(opts))
	if err != nil {
		return err
	}
	b, err := newBackend(cfg)
	if err != nil {
		return err
	}
	node, err := tree.NewRoot(cfg, b, log)
	if err != nil {
		return err
	}
	enter(node)
	return nil
}

// given is the configuration that the code gives.
func given(opts []InitOption) (code Config) {
	for _, o := range opts {
		o.applyInit(&code)
	}
	return code
}

// Shutdown ends every process that this one started and has not ended: it
// asks them to end, kills them after the configured grace or when ctx ends,
// and returns when they have gone. It then kills what [Command] has started
// here. Nothing can be started afterwards until the next Init. Without Init it
// does nothing.
func Shutdown(ctx context.Context) error { return leave(ctx) }
