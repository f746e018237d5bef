package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
)

// A workload does rounds, one after the other. Each has to be right, or its failure excused by a kill.
type workload struct {
	name  string
	pace  time.Duration // from the start of a round to the next
	round func(s *soak, ctx context.Context, r *rand.Rand) error

	rounds, done, excused atomic.Int64
	moved                 atomic.Int64 // when it last made progress, since the start of the run
	over                  atomic.Bool  // it does no more rounds
}

// soak is a run.
type soak struct {
	options
	ground   *ground
	pool     *fiber.Pool
	printers *fiber.Pool
	reader   *reader
	killer   *killer
	manager  *managed // the present one, or nil
	work     []*workload
	begun    time.Time
	series   map[string][]float64
	planted  []any
	faults   faults

	experiment experiment

	stop     chan struct{} // closed when the time is up
	failed   context.Context
	failWith context.CancelCauseFunc
}

func newSoak(o options, g *ground, r *reader) *soak {
	s := &soak{options: o, ground: g, reader: r, begun: time.Now(), stop: make(chan struct{}), series: map[string][]float64{}}
	s.faults = faults{all: map[string]int{}, kinds: map[string]tally{}}
	s.killer = &killer{s: s, kills: map[string]int{}, victims: map[string]bool{}, dying: map[string]int{}, deeds: map[string]int{}}
	s.work = []*workload{
		{name: "map", pace: time.Second, round: mapRound},
		{name: "imap", pace: time.Second, round: imapRound},
		{name: "resume", pace: time.Second, round: resumeRound},
		{name: "share", pace: 2 * time.Second, round: shareRound},
		{name: "reduce", pace: 2 * time.Second, round: reduceRound},
		{name: "nested", pace: 3 * time.Second, round: nestedRound},
		{name: "queue", pace: time.Second, round: queueRound},
		{name: "manager", pace: time.Second, round: managerRound},
		{name: "pipe", pace: time.Second, round: pipeRound},
		{name: "ring", pace: time.Second, round: ringRound},
		{name: "keeper", pace: 5 * time.Second, round: keeperRound},
		{name: "home", pace: 5 * time.Second, round: homeRound},
		{name: "rush", pace: 5 * time.Second, round: rushRound},
		{name: "exchange", pace: 5 * time.Second, round: exchangeRound},
		{name: "print", round: printRound},
	}
	if o.only != "" {
		only := strings.Split(o.only, ",")
		s.work = slices.DeleteFunc(s.work, func(w *workload) bool { return !slices.Contains(only, w.name) })
	}
	if inPod() { // its files end with it
		s.work = slices.DeleteFunc(s.work, func(w *workload) bool { return w.name == "resume" })
	}
	s.failed, s.failWith = context.WithCancelCause(context.Background())
	return s
}

func (s *soak) workload(name string) *workload {
	for _, w := range s.work {
		if w.name == name {
			return w
		}
	}
	panic("no workload is called " + name)
}

// did records progress of a workload.
func (s *soak) did(name string, n int) {
	w := s.workload(name)
	w.done.Add(int64(n))
	w.moved.Store(int64(time.Since(s.begun)))
}

// fail ends the run with its first error.
func (s *soak) fail(err error) { s.failWith(err) }

// run works, kills and looks until the time is up or something has failed. Rounds are not cut short, and the watchdog
// watches the last ones, too.
func (s *soak) run(parent context.Context) (err error) {
	if plants[s.plant] == nil && s.plant != "" {
		return fmt.Errorf("-plant %s: there is no such fault", s.plant)
	}
	if s.pool, err = fiber.NewPool(s.workers, fiber.WithName(workerKind), fiber.WithMaxAttempts(20), fiber.WithState(desk, 0)); err != nil {
		return err
	}
	if s.printers, err = fiber.NewPool(printers, fiber.WithName(printerKind), fiber.WithMaxAttempts(20)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	defer func() { os.RemoveAll(s.experiment.dir) }()
	var working, others, looking sync.WaitGroup
	for i, w := range s.work {
		working.Go(func() { s.repeat(ctx, w, rand.New(rand.NewPCG(s.seed, uint64(i)))) })
	}
	others.Go(func() { s.killer.rage(ctx) })
	others.Go(func() { s.killer.trouble(ctx) })
	others.Go(func() { s.killer.lull(ctx) })
	worked := make(chan struct{})
	looking.Go(func() { s.look(ctx, worked) })
	s.wait(parent)
	others.Wait()
	defer context.AfterFunc(s.failed, cancel)()
	stuck := time.AfterFunc(2*s.patience, func() { s.hang("the last rounds") })
	working.Wait()
	stuck.Stop()
	close(worked)
	looking.Wait()
	s.report()
	if err := context.Cause(s.failed); err != nil {
		s.pool.Terminate()
		s.printers.Terminate()
		return errors.Join(err, s.faults.err())
	}
	err = s.manager.close(s)
	s.pool.Close()
	s.printers.Close()
	s.reader.settle(s)
	return errors.Join(err, s.faults.err(), s.judge())
}

// wait waits until the time is up or something has failed, and closes stop.
func (s *soak) wait(parent context.Context) {
	select {
	case <-time.After(s.duration):
	case <-s.failed.Done():
	case <-parent.Done():
	}
	close(s.stop)
}

// repeat does rounds until stop is closed.
func (s *soak) repeat(ctx context.Context, w *workload, r *rand.Rand) {
	defer w.over.Store(true)
	for ctx.Err() == nil {
		begun := time.Now()
		if err := w.round(s, ctx, r); err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("%s: %w", w.name, err))
			return
		}
		w.rounds.Add(1)
		select {
		case <-time.After(time.Until(begun.Add(w.pace))):
		case <-s.stop:
			return
		}
	}
}

// errWrong is a wrong result, which no kill excuses.
var errWrong = fiber.RegisterError(errors.New("wrong"))

// excuse drops the error of a loss if processes of the kind were killed since the mark.
func (s *soak) excuse(name, kind string, since int, err error) error {
	if err == nil || errors.Is(err, errWrong) {
		return err
	}
	if !s.killer.since(kind, since) {
		return fmt.Errorf("no process was killed: %w", err)
	}
	s.workload(name).excused.Add(1)
	s.did(name, 0)
	return nil
}

// watch finds a workload that has made no progress for too long.
func (s *soak) watch() {
	for _, w := range s.work {
		if idle := time.Since(s.begun) - time.Duration(w.moved.Load()); idle > s.patience && !w.over.Load() {
			s.hang(w.name)
		}
	}
}

// hang prints where everything hangs, and ends all contexts. If the hang does not end soon after, it exits.
func (s *soak) hang(what string) {
	if s.failed.Err() != nil {
		return
	}
	var stacks strings.Builder
	pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	fmt.Println(stacks.String())
	fmt.Printf("pool: %+v\n", s.pool.Stats())
	for _, p := range fiber.ActiveChildren() {
		fmt.Println("child:", p.Name(), p.ID())
	}
	all, err := lines(context.Background(), s.ground.details)
	fmt.Println(strings.Join(all, "\n"), err)
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") { // in brief, where the end of a log is all that is kept
		if strings.Contains(stack, "internal/ring.") {
			fmt.Println(functions.FindAllString(stack, 8))
		}
	}
	s.fail(fmt.Errorf("%s: no progress for %v", what, s.patience))
	time.AfterFunc(s.patience, func() {
		fmt.Println("FAILED: still hanging although all contexts have ended:", what)
		s.reader.quit(1)
	})
}

// functions finds the names of functions in a stack.
var functions = regexp.MustCompile(`[^/\n]+\(`)

// plants are faults that a run must find, planted in each round of the maps.
var plants = map[string]func(s *soak, ctx context.Context) any{
	"goroutine": func(*soak, context.Context) any {
		for range 10 {
			go func() { select {} }()
		}
		return nil
	},
	"descriptor": func(*soak, context.Context) any {
		var files [20]*os.File
		for i := range files {
			files[i], _ = os.Open(os.DevNull)
		}
		return files
	},
	"memory":   func(*soak, context.Context) any { return make([]byte, 1<<20) },
	"item":     func(*soak, context.Context) any { return nil }, // see queue.go
	"deadline": func(*soak, context.Context) any { return nil }, // see rush.go
	"hang":     func(_ *soak, ctx context.Context) any { <-ctx.Done(); return nil },
	"process": func(s *soak, _ context.Context) any {
		if len(s.planted) > 0 {
			return nil // one is enough
		}
		return exec.Command("sleep", "600").Start()
	},
}
