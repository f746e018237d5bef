// Package simulate runs whole programs in a simulated cluster, thousands of them, each from a seed: processes of pools,
// managers, queues, pipes and rings, on machines that fail, over links that break. Each rule of design.md's "The rules of
// failure" that is checked has a name there.
package simulate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/sim"
)

// What make simulate sets, and what this program tells the copies of itself that simulate.
const (
	seedsKey  = "SEEDS"          // how many seeds, from 0 on
	seedKey   = "SEED"           // one seed
	forKey    = "FOR"            // go on with fresh seeds until something fails, or for so long
	replayKey = "REPLAY"         // a file with a plan
	firstKey  = "FIRST"          // end with the first failure, as it is
	orderKey  = "SIMULATE_ORDER" // an order, for a copy
)

const (
	// fewSeeds are those of go test, a third of them with -short.
	fewSeeds = 100
	// allSeeds are enough for each fault and each check to bite.
	allSeeds = 2000
	// batch is how many seeds a copy of this program simulates.
	batch = 50
	// tooLong is the time after which a seed's virtual time stands still.
	tooLong = 30 * time.Second
	// mostShrunk failures are made smaller, at most, each within shrinkTime.
	mostShrunk = 3
	shrinkTime = time.Minute
)

// order tells a copy of this program what to simulate: a plan, or seeds.
type order struct {
	Plan *sim.Plan
	From uint64
	N    int
}

// report is a line that a copy of this program writes: a plan that it begins, or the result.
type report struct {
	Plan   *sim.Plan
	Result *sim.Result
}

func TestSimulate(t *testing.T) {
	if text := os.Getenv(orderKey); text != "" {
		obey(t, text)
		return
	}
	t.Parallel()
	c := &campaign{t: t, counts: map[string]int{}, first: os.Getenv(firstKey) != ""}
	var err error
	switch {
	case os.Getenv(replayKey) != "":
		plan := new(sim.Plan)
		text, err := os.ReadFile(os.Getenv(replayKey))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, plan))
		c.run(order{Plan: plan})
	case os.Getenv(seedKey) != "":
		var seed uint64
		seed, err = strconv.ParseUint(os.Getenv(seedKey), 10, 64)
		require.NoError(t, err)
		c.run(order{From: seed, N: 1})
	case os.Getenv(forKey) != "":
		d, err := time.ParseDuration(os.Getenv(forKey))
		require.NoError(t, err)
		from, end := uint64(time.Now().UnixNano()), time.Now().Add(d)
		c.all(func(i int) (order, bool) {
			return order{From: from + uint64(i*batch), N: batch}, time.Now().Before(end) && len(c.failures) == 0
		})
	default:
		n := fewSeeds
		if testing.Short() {
			n /= 3
		}
		if text := os.Getenv(seedsKey); text != "" {
			n, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
		c.all(func(i int) (order, bool) {
			return order{From: uint64(i * batch), N: min(batch, n-i*batch)}, i*batch < n && !(c.first && len(c.failures) > 0)
		})
		if n >= allSeeds {
			c.complete()
		}
	}
	c.conclude()
}

// campaign is many runs.
type campaign struct {
	t     *testing.T
	first bool // it ends with the first failure

	mu       sync.Mutex
	runs     int
	virtual  time.Duration
	counts   map[string]int
	failures []failure

	foundAfter int // runs
}

// failure is a run in which a rule did not hold, or that has crashed.
type failure struct {
	plan   sim.Plan
	result sim.Result
	crash  string
}

// rule names what did not hold.
func (f failure) rule() string {
	if f.crash != "" {
		for _, line := range strings.Split(f.crash, "\n") {
			if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
				return line[:min(len(line), 100)]
			}
		}
		return "crash"
	}
	rule, _, _ := strings.Cut(f.result.Breaches[0], ":")
	return rule
}

// all carries out orders, on each CPU one.
func (c *campaign) all(orders func(i int) (order, bool)) {
	var group sync.WaitGroup
	var taken int
	for range runtime.NumCPU() {
		group.Go(func() {
			for {
				c.mu.Lock()
				o, ok := orders(taken)
				taken++
				c.mu.Unlock()
				if !ok {
					return
				}
				c.run(o)
			}
		})
	}
	group.Wait()
}

// run has a copy of this program carry out an order, and others the rest of it where that crashes.
func (c *campaign) run(o order) {
	for {
		left, crash := c.copy(o, func(plan sim.Plan, result sim.Result) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.runs++
			c.virtual += result.Took
			for what, n := range result.Counts {
				c.counts[what] += n
			}
			if len(result.Breaches) > 0 {
				c.fail(failure{plan: plan, result: result})
			}
		})
		if crash == nil {
			return
		}
		c.mu.Lock()
		c.fail(*crash)
		c.mu.Unlock()
		if o = left; o.N == 0 || c.first {
			return
		}
	}
}

// fail notes a failure. The lock is held.
func (c *campaign) fail(f failure) {
	c.t.Logf("seed %d: %s", f.plan.Seed, f.rule())
	if c.failures = append(c.failures, f); len(c.failures) == 1 {
		c.foundAfter = c.runs
	}
}

// copy has a copy of this program carry out an order. If that crashes, it returns what is left of it.
func (c *campaign) copy(o order, done func(sim.Plan, sim.Result)) (left order, crash *failure) {
	text, err := json.Marshal(o)
	require.NoError(c.t, err)
	reports, w, err := os.Pipe()
	require.NoError(c.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSimulate$", "-test.timeout=0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, []*os.File{w}
	// One thread, and no preemption: what the scheduler chooses is the same again, mostly.
	cmd.Env = append(environ(), orderKey+"="+string(text), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	require.NoError(c.t, cmd.Start())
	w.Close()
	watch := time.AfterFunc(tooLong, func() { cmd.Process.Signal(syscall.SIGQUIT) })
	lines := bufio.NewReaderSize(reports, 1<<20)
	var current *sim.Plan
	for decoder := json.NewDecoder(lines); ; {
		var r report
		if decoder.Decode(&r) != nil {
			break
		}
		watch.Reset(tooLong)
		if current = r.Plan; r.Result != nil {
			done(*r.Plan, *r.Result)
			current = nil
		}
	}
	err = cmd.Wait()
	watch.Stop()
	if current == nil {
		require.NoError(c.t, err, said.String())
		return left, nil
	}
	if o.Plan == nil {
		left = order{From: current.Seed + 1, N: int(o.From + uint64(o.N) - current.Seed - 1)}
	}
	return left, &failure{plan: *current, crash: said.String()}
}

// environ is the environment without settings of Fiber.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FIBER_") })
}

// obey carries out an order, in a copy of this program.
func obey(t *testing.T, text string) {
	// What is garbage is found when a run says so, not when there is much.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(2 << 30)
	var o order
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	out := json.NewEncoder(os.NewFile(3, "reports"))
	simulate := func(plan sim.Plan) {
		require.NoError(t, out.Encode(report{Plan: &plan}))
		result := sim.Simulate(t, plan, program)
		if len(result.Breaches) == 0 {
			result.Timeline = nil
		}
		require.NoError(t, out.Encode(report{&plan, &result}))
	}
	if o.Plan != nil {
		simulate(*o.Plan)
	}
	for i := range o.N {
		simulate(draw(o.From + uint64(i)))
	}
}

// complete fails where a fault, a kind of work or a check never bit: it can't fail.
func (c *campaign) complete() {
	for _, what := range counted() {
		if c.counts[what] == 0 {
			c.t.Errorf("%q: never in %d seeds", what, c.runs)
		}
	}
}

// conclude reports what has failed, and how little suffices for that.
func (c *campaign) conclude() {
	names := slices.Sorted(maps.Keys(c.counts))
	var text []string
	for _, name := range names {
		text = append(text, fmt.Sprintf("%s %d", name, c.counts[name]))
	}
	c.t.Logf("%d runs, %v of virtual time: %s", c.runs, c.virtual.Round(time.Minute), strings.Join(text, ", "))
	if c.first && len(c.failures) > 0 {
		c.t.Fatalf("after %d runs: %s", c.foundAfter, c.failures[0].rule())
	}
	slices.SortFunc(c.failures, func(a, b failure) int { return cmp.Compare(a.plan.Seed, b.plan.Seed) })
	seen := map[string]bool{}
	for _, f := range c.failures {
		rule := f.rule()
		if seen[rule] || len(seen) == mostShrunk {
			c.t.Errorf("seed %d: %s (see above)", f.plan.Seed, rule)
			continue
		}
		seen[rule] = true
		f = c.shrink(f)
		plan, _ := json.Marshal(f.plan)
		c.t.Errorf("seed %d: %s\n%s\n%s%s\nThe plan that is left, for REPLAY=file:\n%s", f.plan.Seed, rule,
			strings.Join(f.result.Breaches, "\n"), strings.Join(f.result.Timeline, "\n"), shortened(f.crash), plan)
	}
}

// shortened is the beginning of a long text.
func shortened(s string) string { return s[:min(len(s), 300_000)] }

// shrink leaves out of a plan what its failure does without.
func (c *campaign) shrink(f failure) failure {
	rule := f.rule()
	end := time.Now().Add(shrinkTime)
	for again := true; again; {
		again = false
		for i := len(f.plan.Work) + len(f.plan.Faults) - 1; i >= 0 && time.Now().Before(end); i-- {
			plan := f.plan
			if i < len(plan.Work) {
				plan.Work = slices.Delete(slices.Clone(plan.Work), i, i+1)
			} else {
				j := i - len(plan.Work)
				plan.Faults = slices.Delete(slices.Clone(plan.Faults), j, j+1)
			}
			var fails *failure
			_, crash := c.copy(order{Plan: &plan}, func(_ sim.Plan, result sim.Result) {
				if len(result.Breaches) > 0 {
					fails = &failure{plan: plan, result: result}
				}
			})
			if crash != nil {
				fails = crash
			}
			if fails != nil && fails.rule() == rule {
				f, again = *fails, true
			}
		}
	}
	return f
}

// design.md says for each rule what it is.
func TestRulesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/design.md")
	require.NoError(t, err)
	for name := range rules {
		require.Contains(t, string(text), "\n| `"+name+"` | ")
	}
}
