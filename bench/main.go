//go:build unix

// Command bench measures Fiber against the floor under it (bare unix sockets, a bare re-exec of this same
// executable, the same loop on goroutines) and against Python's multiprocessing, and prints which of the
// project's bounds are reached. Absolute figures move with whatever else the machine is doing. Therefore
// Fiber and the others take turns in one run, and the bounds apply to the median of each turn's ratios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fiber-go/fiber"
)

func main() {
	if role := os.Getenv(floorVariable); role != "" {
		serveFloor(role)
	}
	profileWorker()
	if name := os.Getenv(elsewhereVariable); name != "" {
		fiber.Main(serveElsewhere, fiber.Config{Backend: name})
	}
	fiber.Main(run)
}

var allRows = slices.Concat(applyRows, mapRows, piRows, echoRows, sleepRows, processRows, scaleRows, queueRows, pipeRows, managerRows, asyncRows, ringRows, checkpointRows, shareRows, reduceRows, esRows, crowdRows, observedRows, dockerRows, kubernetesRows)

func run(ctx context.Context) error {
	now := time.Now()
	only := flag.String("rows", "", "measure only the rows whose name matches this `regexp`")
	list := flag.Bool("list", false, "print the names of the rows and measure nothing")
	pairs := flag.Int("pairs", 0, "how many `turns` each contender takes; 0 for the row's own number")
	quick := flag.Bool("quick", false, "two short turns of everything, to see that it runs")
	path := flag.String("json", filepath.Join("bench", "results", now.Format("2006-01-02T150405")+".json"), "write the results to this `file`")
	peers := flag.String("peers", "", "measure Fiber beside its peers, with the Python of the virtual environment in this `directory`, if it has one")
	figures := flag.String("figures", "", "with -peers, write the results into figures.md and peers.svg of this `directory`; docs, if all is measured")
	cpuprofile := flag.String("cpuprofile", "", "write CPU profiles to this `file` (the root) and file.<pid> (each worker's first 2 s), and measure Fiber alone")
	flag.Parse()

	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	all := allRows
	if *peers != "" {
		all, peersPython = peerRows, filepath.Join(*peers, "bin", "python")
	}
	rows := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !pattern.MatchString(r.name) })
	if !*list {
		rows = without(rows, "docker/", engineAnswers, "no docker engine answers")
		rows = without(rows, "kubernetes/", clusterGiven, kubeconfigKey+" names no cluster (make bench-kubernetes)")
	}
	if len(rows) == 0 {
		return fmt.Errorf("-rows: no row matches %q; -list prints them all", *only)
	}
	if *list {
		for _, r := range rows {
			fmt.Println(r.name)
		}
		return nil
	}

	h := &harness{pairs: *pairs, slice: 100 * time.Millisecond, limit: 5 * time.Minute}
	if *peers != "" {
		h.apart, h.slice, h.limit = true, time.Second, time.Hour
		if *figures == "" && *only == "" && !*quick && *cpuprofile == "" {
			*figures = "docs"
		}
		if *figures != "" {
			if _, _, err := aroundFigures(filepath.Join(*figures, "figures.md")); err != nil {
				return err
			}
		}
	}
	if *quick {
		h.slice = 20 * time.Millisecond
		if h.pairs == 0 {
			h.pairs = 2
		}
	}
	if *cpuprofile != "" {
		stop, err := profile(*cpuprofile)
		if err != nil {
			return fmt.Errorf("-cpuprofile: %w", err)
		}
		defer stop()
		h.alone = true
	}
	rep := &report{Time: now, Machine: thisMachine()}
	err = h.report(ctx, rows, rep, *path)
	if *peers != "" && *figures != "" && err == nil {
		err = rep.writeFigures(*figures)
	}
	return err
}

// without leaves out, with a message, the rows that need something which is not there.
func without(rows []row, prefix string, there func() bool, why string) []row {
	needy := func(r row) bool { return strings.HasPrefix(r.name, prefix) }
	if !slices.ContainsFunc(rows, needy) || there() {
		return rows
	}
	fmt.Println(why + ": its rows are left out")
	return slices.DeleteFunc(rows, needy)
}

// report measures the rows, prints each as it is done, and saves them all.
func (h *harness) report(ctx context.Context, rows []row, rep *report, path string) (err error) {
	defer func() { err = errors.Join(err, closeNamespace()) }()
	fmt.Println(rep.Machine)
	fmt.Println()
	printHeader(os.Stdout)
	for _, r := range rows {
		res := h.measure(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		res.print(os.Stdout)
		rep.Results = append(rep.Results, res)
	}
	failed := rep.summarize(os.Stdout)
	if err := rep.write(path); err != nil {
		return err
	}
	fmt.Println("written to", path)
	return failed
}
