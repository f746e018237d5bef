// Command soak runs maps, also with a checkpoint, queues, managers, pipes and rings on one backend for a given time, has workers
// print, and keeps killing their processes, and stopping them for a while. Many operations have short deadlines. It fails on a
// wrong result, a loss, a hang, an operation that outlasts its context, a figure that grows, and on anything left behind.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/goleak"

	"github.com/fiber-go/fiber"
	_ "github.com/fiber-go/fiber/dashboard" // for FIBER_REPORT
	_ "github.com/fiber-go/fiber/metrics"   // for FIBER_METRICS
)

// markKey is set in the environment of this process and of all its descendants, on every backend.
const markKey = "SOAK_MARK"

type options struct {
	duration, every, lulls, patience, bound time.Duration
	seed                                    uint64
	workers                                 int
	print                                   float64
	killed                                  bool
	node, root, plant, only, profiles       string
}

func main() {
	if os.Getenv(awayKey) != "" {
		fiber.Main(nil) // the pod runs all that follows
	}
	var g *ground
	var printed *reader
	var err error
	if os.Getenv(markKey) == "" { // the root
		os.Setenv(markKey, rand.Text())
		os.Setenv("FIBER_ENV", markKey)
		if g, err = newGround(); err == nil && !inPod() { // what a pod prints is read outside
			printed, err = readPrinted()
		}
	}
	before := goleak.IgnoreCurrent()
	if err := errors.Join(err, fiber.Init()); err != nil { // Init does not return in children
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	every, patience := 5*time.Second, 5*time.Minute
	if g.name == "local" {
		every, patience = 2*time.Second, 2*time.Minute
	}
	var o options
	flag.DurationVar(&o.duration, "for", 10*time.Minute, "how long to run")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the random kills")
	flag.DurationVar(&o.every, "every", every, "average `time` between two kills; 0 for none")
	flag.DurationVar(&o.lulls, "lulls", every, "average `time` between two stops of a process, which goes on later; 0 for none")
	flag.DurationVar(&o.patience, "patience", patience, "a workload that makes no progress for so `long` counts as hanging")
	flag.DurationVar(&o.bound, "bound", 31*time.Second, "an operation that returns so `long` after the end of its context is a fault")
	flag.StringVar(&o.only, "only", "", "only the `workloads` whose names are in this list")
	flag.Float64Var(&o.print, "print", 6, "how many `MB` the printers print in a second, if none is killed")
	flag.IntVar(&o.workers, "workers", 4, "workers of the pool")
	flag.StringVar(&o.node, "node", os.Getenv("FIBER_TEST_NODE"), "a `script` that does to a node what test/cluster/node2.sh does, now and then")
	flag.StringVar(&o.root, "root", "", "run the root as a pod on this `node`, and kill from outside")
	flag.BoolVar(&o.killed, "killed", false, "another process kills: any loss is excused")
	flag.StringVar(&o.plant, "plant", "", "a `fault` that must be found: goroutine, descriptor, memory, item, deadline, hang or process")
	flag.StringVar(&o.profiles, "profiles", "", "an existing `folder` for a heap profile of each look, which say what has grown: go tool pprof -diff_base")
	flag.Parse()
	if err := run(o, g, printed, before); err != nil {
		fmt.Println("FAILED:", err)
		printed.quit(1)
	}
	fmt.Println("passed")
	printed.quit(0)
}

// run does the whole run, up to the last look at what is left.
func run(o options, g *ground, printed *reader, before goleak.Option) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := g.open(ctx); err != nil {
		return err
	}
	fmt.Printf("%v on %s, -seed %d\n", o.duration, g.name, o.seed)
	s := newSoak(o, g, printed)
	work := s.run
	if o.root != "" {
		work = s.away
	}
	err := work(ctx)
	late, end := context.WithTimeout(context.Background(), o.patience) // a cluster whose node is away takes its time
	defer end()
	err = errors.Join(err, fiber.Shutdown(late))
	cancel()
	return errors.Join(cmp.Or(err, goleak.Find(before)), g.gone(late), g.close())
}
