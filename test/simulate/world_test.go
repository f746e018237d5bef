package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// program is what the simulated processes run.
var program = sim.Program{
	Child: func() { fiber.Init() },
	End:   func() { fiber.Shutdown(context.Background()) },
	Root:  root,
}

// works are the kinds of work. Each runs in the root, beside others.
var works = map[string]func(ctx context.Context, w *world, r *rand.Rand) error{}

// extras are kinds of work that are done besides others, by the seed's rest.
var extras = map[uint64]string{1: carrying, 2: resuming, 3: givingBack, 5: meetings, 6: balancing}

// kinds are the kinds of faults that are drawn. Stops and cuts are shorter than the heartbeat's timeout.
var kinds = []string{"kill", "kill", "kill", "term", "freeze", "stop", "stop", "machine", "machine", "machine", "cut", "cut", "cut", "split", "slow", "reset", "refused", "delayed", "stillborn"}

// heartbeat is the default heartbeat_timeout.
const heartbeat = 10 * time.Second

// rules are the rules that are checked.
var rules = map[string]bool{}

// rule names a rule that is checked.
func rule(name string) string {
	rules[name] = true
	return name
}

// What else happens.
const (
	shutDown      = "Shutdown in the middle"
	managerClosed = "a manager closed in the middle"
)

// counted lists all that must happen in a whole campaign.
func counted() (all []string) {
	all = append(all, sim.CallerReads, sim.CallerReadsForOthers, sim.CallerHandsOver, shutDown, managerClosed)
	for _, kind := range slices.Concat(kinds, diskFaults) {
		all = append(all, "fault "+kind)
	}
	for kind := range works {
		all = append(all, "work "+kind)
	}
	for name := range rules {
		all = append(all, "check "+name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// draw makes the plan of a seed.
func draw(seed uint64) sim.Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	plan := sim.Plan{Seed: seed, Machines: 1 + r.IntN(2)*(1+r.IntN(4)), Threads: 1, TLS: r.IntN(20) == 0, Scale: 1}
	if seed%10 == 7 {
		plan.Threads = 2
	}
	if seed%100 == 99 {
		plan.Scale = 100
	}
	var names []string
	for name := range works {
		if !slices.Contains(slices.Collect(maps.Values(extras)), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for range 1 + r.IntN(3) {
		plan.Work = append(plan.Work, sim.Work{Kind: names[r.IntN(len(names))], Seed: r.Uint64()})
	}
	if extra := extras[seed%8]; extra != "" {
		plan.Work = append(plan.Work, sim.Work{Kind: extra, Seed: seed})
	}
	plan.Watched = seed%8 == 4
	if seed%20 == 11 {
		plan.Ends = time.Duration(1 + r.Int64N(int64(time.Second)))
	}
	if seed%500 == 499 {
		plan.Scale, plan.Work[0].Kind = 1000, "queue"
	}
	// Often few faults, sometimes many; of a few kinds, so that others don't hide what they do.
	some := make([]string, 1+r.IntN(4))
	for i := range some {
		some[i] = kinds[r.IntN(len(kinds))]
	}
	if r.IntN(5) == 0 {
		some = []string{"kill", "machine"} // what follows has a time, which other faults prolong
	}
	n := r.IntN(5)
	if r.IntN(3) == 0 {
		n = r.IntN(40)
	}
	if plan.Work[0].Kind == "large" {
		some, n = []string{"slow"}, 10 // what is large takes long on a slow link only
	}
	if extras[seed%8] == carrying && r.IntN(2) == 0 { // what waits for a slow one
		some, n = append(some, "slow"), max(n, 5)
	}
	// Most runs are over within a second, unless something goes wrong.
	while := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 20 * time.Second}[r.IntN(4)]
	if plan.Work[0].Kind == "share" && r.IntN(2) == 0 { // which each process fetches once, soon
		some, n, while = []string{"slow", "cut"}, 10, 300*time.Millisecond
	}
	plan.Faults = sim.Draw(r, n, while, heartbeat-time.Second, some...)
	if extras[seed%8] == resuming {
		disk := rand.New(rand.NewPCG(seed, 1))
		plan.Faults = append(plan.Faults, sim.Draw(disk, disk.IntN(4), 3*time.Second, time.Second, diskFaults...)...)
		slices.SortFunc(plan.Faults, func(a, b sim.Fault) int { return cmp.Compare(a.At, b.At) })
	}
	return plan
}

// world is shared by the processes of a run, outside of what is simulated.
type world struct {
	run    *sim.Run
	lodger *fiber.Manager                        // lives as long as the root, nil if there is none
	stays  *fiber.Value[*fiber.SimpleQueue[int]] // in it
	load   atomic.Int64                          // how many tasks, items or bytes the work may have under way
	shut   atomic.Bool                           // the root shuts down, whatever is under way
	mu     sync.Mutex
	// books are what work notes, by its number.
	books map[int]any
}

// amount draws a number below n, or below many times that, which is most at most. So much is under way then.
func (w *world) amount(r *rand.Rand, n, most int) int {
	n = r.IntN(min(n*w.run.Scale, most))
	w.load.Add(int64(n))
	return n
}

// here is the world of the calling goroutine.
func here() *world { return sim.Here().Run().State.(*world) }

// book keeps something that the processes of a work find again.
func (w *world) book(b any) (number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.books[len(w.books)] = b
	return len(w.books) - 1
}

// bookOf is the book of that number.
func bookOf[T any](number int) T {
	w := here()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.books[number].(T)
}

func root(run *sim.Run) error {
	w := &world{run: run, books: map[int]any{}}
	run.State = w
	if err := fiber.Init(fiber.Config{LogLevel: "error"}); err != nil {
		return err
	}
	q, err := fiber.NewSimpleQueue[int]() // from now on the root listens
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if run.Seed%2 == 0 {
		m, err := fiber.NewManager(ctx)
		if err == nil {
			w.stays, err = fiber.NewValue(ctx, m, q) // it holds the queue, over a connection to the root
		}
		if err == nil {
			err = w.stays.Set(ctx, q) // then the manager knows who holds it
			for kept := sim.Here().Kept(); kept != nil && kept["object.Server.named"] == 0 && err == nil; kept = sim.Here().Kept() {
				time.Sleep(time.Millisecond) // until the manager is connected
				err = w.stays.Set(ctx, q)
			}
		}
		if w.checkError("a manager that stays", err); err == nil {
			w.lodger = m
		}
	}
	before := w.kept()
	var group sync.WaitGroup
	for _, work := range run.Work {
		run.Count("work " + work.Kind)
		group.Go(func() {
			if err := works[work.Kind](ctx, w, rand.New(rand.NewPCG(work.Seed, 0))); err != nil {
				w.breach(rule("errors"), "%s: %v", work.Kind, err)
			}
			run.Log("%s is done", work.Kind)
		})
	}
	over := make(chan struct{})
	go w.watch(over)
	var watching sync.WaitGroup
	if run.Watched {
		watching.Go(func() { w.follow(ctx, over) })
	}
	if run.Ends > 0 {
		go w.shutdown(ctx)
	}
	group.Wait()
	close(over)
	watching.Wait()
	w.left(before)
	return fiber.Shutdown(ctx)
}

// shutdown ends the root's part in the run.
func (w *world) shutdown(ctx context.Context) {
	time.Sleep(w.run.Ends)
	w.shut.Store(true)
	w.run.Log("Shutdown")
	w.run.Count(shutDown)
	_ = w.ends(ctx, "Shutdown", fiber.Shutdown)
}

// ruleKept: what a process keeps is in proportion to the work.
var ruleKept = rule("kept")

// watch checks what processes keep, again and again, until the work is over.
func (w *world) watch(over <-chan struct{}) {
	for d := 5 * time.Millisecond; ; d *= 2 {
		select {
		case <-time.After(d):
		case <-over:
			return
		}
		for _, p := range w.run.Live() {
			for what, n := range p.Kept() {
				load := int(w.load.Load())
				most := 200 + 3*load
				if strings.HasPrefix(what, sim.Bytes) {
					most = 100_000 + 300*load
				}
				if n > most {
					w.breach(ruleKept, "%d %s in %s, where %d are under way", n, what, p.Name, load)
				}
			}
			w.bit(ruleKept)
		}
	}
}

// ruleLeft: when the work is over, and what it used is garbage, nothing is kept for it.
var ruleLeft = rule("left")

// left checks what processes keep once the work is over, of which they kept so much before. Only the root and the lodger are
// there then.
func (w *world) left(before map[string]map[string]int) {
	if w.lodger != nil { // what an answer names is held until it is taken
		_, err := w.stays.Get(context.Background())
		w.checkError("Get", err)
	}
	const tenMinutes = 10 * time.Minute // for timers that should have been stopped
	for _, d := range []time.Duration{time.Minute, time.Minute, tenMinutes} {
		if w.lodger != nil && w.run.Ended(w.lodger.Name()) {
			w.lodger, w.stays = nil, nil
		}
		w.run.Collect()
		fired := w.fired()
		time.Sleep(d)
		for name, n := range w.fired() {
			if late := n - fired[name]; d == tenMinutes && late > 0 {
				w.breach(ruleLeft, "%d times a timer calls %s, minutes after the work", late, name)
			}
		}
	}
	for name, kept := range w.kept() {
		for what, n := range kept {
			switch most := before[name][what]; {
			case what == "tree.hosts.bad": // until the next start that fails, machines where others did are known
			case strings.Contains(what, "transport."): // buffers of connections, which count themselves
			case n > most:
				w.breach(ruleLeft, "%d %s in %s, before the work %d", n, what, name, most)
			}
		}
		w.bit(ruleLeft)
	}
}

// kept is what processes keep, by their names.
func (w *world) kept() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, p := range w.run.Live() {
		all[p.Name] = p.Kept()
	}
	return all
}

// fired counts the timers that have come in all processes, by what they call, but for those that each connection has.
func (w *world) fired() map[string]int {
	all := map[string]int{}
	for _, p := range w.run.Live() {
		for name, n := range p.Fired() {
			if !strings.Contains(name, "transport.") && !strings.Contains(name, "tree.(*recent)") { // nor those that forget where starts have failed
				all[name] += n
			}
		}
	}
	return all
}

// home is a manager for a work, and what ends it.
func (w *world) home(ctx context.Context, r *rand.Rand) (m *fiber.Manager, end func(), err error) {
	if w.lodger != nil && r.IntN(2) == 0 {
		return w.lodger, func() {}, nil
	}
	m, err = fiber.NewManager(ctx)
	return m, func() { m.Close() }, err
}

// breach notes that a rule did not hold, unless it's a process that has ended which says so. When the root shuts down in the
// middle of its work, that only has to end.
func (w *world) breach(rule, format string, args ...any) {
	if sim.Here().Alive() && (!w.shut.Load() || rule == ruleEnds || rule == ruleWaits || rule == ruleLeft) {
		w.run.Breach(rule, format, args...)
	}
}

// bit notes that a rule was checked, by something that could have been otherwise.
func (w *world) bit(rule string) { w.run.Count("check " + rule) }

// harmed says whether faults may have befallen a process, or a connection: so many times at most.
func (w *world) harmed() int {
	return len(slices.DeleteFunc(slices.Clone(w.run.Faults), func(f sim.Fault) bool {
		return strings.HasPrefix(f.Kind, "slow") || slices.Contains(diskFaults, f.Kind)
	}))
}

const (
	// moment is how long what happens at once takes at most.
	moment = 100 * time.Millisecond
	// settling is how long a caller waits for word of whether its request was carried out.
	settling = time.Second
)

var (
	ruleWaits = rule("waits")
	ruleEnds  = rule("ends")
)

// forever is longer than anything here that waits for others to go on.
const forever = 12 * time.Minute

// within calls an operation with a context that ends in between, sometimes, and checks that the operation ends then, at most
// so much later.
func (w *world) within(ctx context.Context, r *rand.Rand, late time.Duration, what string, op func(ctx context.Context) error) error {
	d := time.Duration(r.Int64N(int64(3 * time.Second)))
	switch r.IntN(5) {
	case 0:
		return w.ends(ctx, what, op)
	case 1, 2:
		d /= 1000
	case 3:
		d /= 30
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begun := time.Now()
	err := op(ctx)
	if took := time.Since(begun); took > d+late+moment {
		w.breach(ruleWaits, "%s in %s has taken %v, its context %v: %v", what, sim.Here().Name, took, d, err)
	} else if ctx.Err() != nil {
		w.bit(ruleWaits)
	}
	return err
}

// ends calls an operation that nothing but others ends, and checks that they do.
func (w *world) ends(ctx context.Context, what string, op func(ctx context.Context) error) error {
	begun := time.Now()
	err := op(ctx)
	var lost *fiber.WorkerLostError
	switch took := w.run.Since(begun); {
	case took > forever:
		w.breach(ruleEnds, "%s in %s has taken %v: %v", what, sim.Here().Name, took, err)
	case errors.As(err, &lost) && lost.Attempts == 0 && took > heartbeat+settling+moment && w.onlyDeaths():
		w.breach(ruleEnds, "%s in %s has ended only after %v: %v", what, sim.Here().Name, took, err)
	}
	w.bit(ruleEnds)
	return err
}

// onlyDeaths says whether nothing goes wrong but that processes and machines die, and what may go wrong besides.
func (w *world) onlyDeaths(and ...string) bool {
	return !slices.ContainsFunc(w.run.Faults, func(f sim.Fault) bool {
		return f.Kind != "kill" && f.Kind != "machine" && !slices.Contains(and, f.Kind) && !slices.Contains(diskFaults, f.Kind)
	})
}

// expected says whether an operation may fail with such an error: it was told to end, what it needs was lost or closed.
func expected(err error) bool {
	var lost *fiber.WorkerLostError
	var exit *fiber.ExitError // of Join
	var launch *fiber.LaunchError
	return err == nil || errors.Is(err, fiber.ErrBrokenBarrier) || errors.As(err, &exit) || errors.As(err, &launch) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, fiber.ErrUnknownOutcome) ||
		errors.Is(err, fiber.ErrClosed) || errors.As(err, &lost) || errors.Is(err, fiber.ErrAbandoned)
}

// ruleErrors: errors are of the documented type.
var ruleErrors = rule("errors")

// checkError notes an error that its operation does not document.
func (w *world) checkError(what string, err error) {
	if !expected(err) {
		w.breach(ruleErrors, "%s in %s: %T %v", what, sim.Here().Name, err, err)
	} else if err != nil {
		w.bit(ruleErrors)
	}
	w.checkName(err)
}

// ending is how long a process goes on at most when it has let its objects go.
const ending = 5 * time.Second

// ruleNames: an error names the process that was lost.
var ruleNames = rule("names")

func (w *world) checkName(err error) {
	if lost := (*fiber.WorkerLostError)(nil); errors.As(err, &lost) && w.onlyDeaths("slow") && sim.Here().Alive() {
		if !w.run.Ended(lost.Worker) {
			time.Sleep(ending)
		}
		if !w.run.Ended(lost.Worker) {
			w.breach(ruleNames, "%s in %s, which goes on", lost.Worker, sim.Here().Name)
		}
		w.bit(ruleNames)
	}
}

// start starts a process, again while starts fail.
func start[In, Out any](ctx context.Context, f *fiber.Func[In, Out], in In) (*fiber.Process, error) {
	for {
		p := fiber.NewProcess(f, in)
		err := p.Start(ctx)
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		var launch *fiber.LaunchError
		var lost *fiber.WorkerLostError
		if !errors.As(err, &launch) && !errors.As(err, &lost) {
			return p, fmt.Errorf("a start failed with %T: %w", err, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
