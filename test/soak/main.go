// Command soak has maps, queues, managers, pipes and rings work on one backend for as long as it is told to, kills their
// processes all the while, and fails on a wrong result, on a loss, on a hang, on a figure that grows, and on what is left
// behind.
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
)

// markKey stands in the environment of this process and of all that descend from it, on whichever backend.
const markKey = "SOAK_MARK"

type options struct {
	duration, every, patience time.Duration
	seed                      uint64
	workers                   int
	killed                    bool
	node, root, plant         string
}

func main() {
	if os.Getenv(awayKey) != "" {
		fiber.Main(nil) // the pod runs all that follows
	}
	var g *ground
	var err error
	if os.Getenv(markKey) == "" { // the first process
		os.Setenv(markKey, rand.Text())
		g, err = newGround()
	}
	before := goleak.IgnoreCurrent()
	if err := errors.Join(err, fiber.Init()); err != nil { // children never return from it
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	every, patience := 5*time.Second, 5*time.Minute
	if g.name == "local" {
		every, patience = 2*time.Second, 2*time.Minute
	}
	var o options
	flag.DurationVar(&o.duration, "for", 10*time.Minute, "how long")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "what the kills are drawn from")
	flag.DurationVar(&o.every, "every", every, "`time` between two kills on average; 0 for none")
	flag.DurationVar(&o.patience, "patience", patience, "a workload that does nothing for so `long` hangs")
	flag.IntVar(&o.workers, "workers", 4, "workers of the pool")
	flag.StringVar(&o.node, "node", os.Getenv("FIBER_TEST_NODE"), "a `script` that does to a node what test/cluster/node2.sh does, now and then")
	flag.StringVar(&o.root, "root", "", "have the first process be a pod on this `node`, and kill from outside")
	flag.BoolVar(&o.killed, "killed", false, "somebody else kills: any loss is excused")
	flag.StringVar(&o.plant, "plant", "", "a `fault` that must be found: goroutine, descriptor, memory, item, hang or process")
	flag.Parse()
	if err := run(o, g, before); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("passed")
}

// run is all of it, to the last look at what is left.
func run(o options, g *ground, before goleak.Option) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := g.open(ctx); err != nil {
		return err
	}
	fmt.Printf("%v on %s, -seed %d\n", o.duration, g.name, o.seed)
	s := newSoak(o, g)
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
