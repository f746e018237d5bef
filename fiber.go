package fiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/stdio"
	"github.com/fiber-go/fiber/internal/tree"
)

// Main runs a program: it initialises Fiber, calls run, ends the processes that
// run has left running, and exits. It never returns. In a process that Fiber
// started, Main does that process's work instead, so nothing with a side effect
// should come before it.
//
// The first SIGINT or SIGTERM ends the context. If the program has not ended a
// second later, it logs what it waits for. If run has not returned when
// shutdown_grace (2 s) has passed, all processes that the program has started
// are asked to end. A second signal ends the program at once: its processes are
// killed, and what an engine or a cluster has not removed within a second ends
// by itself, and is removed by the next run.
//
// The exit code is 0 when run returns nil, 1 when run returns an error, which
// Main prints to stderr with all that Fiber's errors in it say, and 128+n when
// signal n ended the program. If a *TaskError is in the error, a few lines come last:
// which input, in which worker, why, how many tasks have succeeded, and where the rest is.
//
// Of several Configs, here and for Init, the last one counts.
func Main(run func(ctx context.Context) error, cfg ...Config) {
	os.Exit(runMain(run, last(cfg)))
}

func runMain(run func(ctx context.Context) error, code Config) int {
	if config.Moved() {
		code = Config{Logger: code.Logger} // the rest comes from where the program was
	} else if code, gone := submit(code); gone {
		return code
	}
	if err := Init(code); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p := here()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var got atomic.Int32
	var returned atomic.Bool
	go func() {
		s := <-signals
		got.Store(int32(s.(syscall.Signal)))
		cancel()
		explain, tell := time.NewTimer(explainAfter), time.NewTimer(p.node.Config.ShutdownGrace)
		for {
			select {
			case <-explain.C:
				p.explain(s, returned.Load())
			case <-tell.C:
				go p.node.Terminate() // an engine may not answer
			case s = <-signals:
				p.node.Abandon()
				p.node.RemoveDirectory()
				p.closeLog(abandonedLog)
				stdio.Leave()
				os.Exit(128 + int(s.(syscall.Signal)))
			}
		}
	}()
	err := run(ctx)
	p.failure = err
	returned.Store(true)
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
		fmt.Fprint(os.Stderr, p.lastLook(err))
		return 1
	}
	return 0
}

// submit has the configured backend run this program elsewhere, if it does that.
func submit(code Config) (exit int, gone bool) {
	if tree.Started() {
		return 0, false
	}
	cfg, warnings, err := config.Load(code.internal(), config.Sources{})
	if err != nil { // Init says what is wrong
		return 0, false
	}
	b, err := newBackend(cfg, slog.New(slog.DiscardHandler))
	if s, can := b.(backend.Submitter); can && err == nil {
		return s.Submit(warnings)
	}
	return 0, false
}

// abandonedLog is logPatience after a second signal.
const abandonedLog = 200 * time.Millisecond

// explainAfter is how long after the first signal the program says why it has not
// ended yet.
const explainAfter = time.Second

// explain logs what the program waits for after its first signal.
func (p *process) explain(s os.Signal, returned bool) {
	var all []string
	if !returned {
		all = append(all, "the function that Main runs")
	}
	if waits := p.node.Waits(); waits != "" {
		all = append(all, waits)
	}
	again := "a second signal"
	if s == os.Interrupt {
		again = "a second Ctrl-C"
	}
	p.node.Log.Warn("fiber: the program has yet to end; "+again+" ends it at once", "signal", s.String(),
		"waits_for", cmp.Or(strings.Join(all, ", "), "its connections"))
}

// Init makes this process the root of a run. In a process that Fiber started,
// it does that process's work instead and never returns. TestMain functions,
// and programs that do not use Main, call Init first and Shutdown last. Init
// returns an error if the configuration is invalid, or if it is called a second
// time without a Shutdown in between.
func Init(cfg ...Config) error {
	registry.Seal()
	if tree.Started() {
		self.Of().Exit(runChild())
	}
	me := self.Of()
	me.Init.Lock(context.Background())
	defer me.Init.Unlock()
	if here() != nil {
		return errors.New("fiber: Init was called before; call it once, or call Shutdown in between")
	}
	settings, log, closeLog, err := configure(last(cfg))
	if err != nil {
		return err
	}
	unhurried(&settings)
	b, err := newBackend(settings, log)
	if err != nil {
		closeLog(logPatience)
		return err
	}
	node, err := tree.NewRoot(settings, b, log)
	if err != nil {
		closeLog(logPatience)
		return err
	}
	enter(node, closeLog)
	if err := here().report(); err != nil {
		here().leave(context.Background())
		return err
	}
	here().announce()
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
	defer stdio.Leave()
	return leave(ctx)
}
