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
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/sim"
)

// What make simulate sets, and what this program tells the copies of itself that simulate.
const (
	seedsKey  = "SEEDS"         // how many seeds, from 0 on
	freshKey  = "FRESH"         // how many seeds that nobody has tried yet, besides: what they find is said, and is no failure
	seedKey   = "SEED"          // one seed
	forKey    = "FOR"           // go on with fresh seeds until something fails, or for so long
	replayKey = "REPLAY"        // a file with a plan
	timesKey  = "TIMES"         // how often SEED or REPLAY is run
	firstKey  = "FIRST"         // end with the first failure, as it is
	planKey   = "SIMULATE_PLAN" // a plan, for a copy
)

const (
	// fewSeeds are those of go test, a third of them with -short.
	fewSeeds = 100
	// allSeeds are enough for each fault and each check to bite.
	allSeeds = 2000
	// tooLong is the time after which a run's virtual time stands still.
	tooLong = 5 * time.Minute
	// mostShrunk failures are made smaller, at most, each within shrinkTime.
	mostShrunk = 3
	shrinkTime = time.Minute
)

func TestSimulate(t *testing.T) {
	if text := os.Getenv(planKey); text != "" {
		obey(t, text)
		return
	}
	t.Parallel()
	c := &campaign{t: t, fail: t.Errorf, first: os.Getenv(firstKey) != "", counts: map[string]int{}}
	n := fewSeeds
	if testing.Short() {
		n /= 3
	}
	switch {
	case os.Getenv(replayKey) != "":
		c.again(planOf(t, os.Getenv(replayKey)))
	case os.Getenv(seedKey) != "":
		seed, err := strconv.ParseUint(os.Getenv(seedKey), 10, 64)
		require.NoError(t, err)
		c.again(draw(seed))
	case os.Getenv(forKey) != "":
		d, err := time.ParseDuration(os.Getenv(forKey))
		require.NoError(t, err)
		end := time.Now().Add(d)
		c.all(uint64(end.UnixNano()), func(int) bool { return time.Now().Before(end) && len(c.failures) == 0 })
	default:
		n = setting(t, seedsKey, n)
		c.all(0, func(i int) bool { return i < n && !(c.first && len(c.failures) > 0) })
		if n >= allSeeds {
			c.complete()
		}
		if n = setting(t, freshKey, 0); n > 0 {
			fresh := &campaign{t: t, fail: t.Logf, counts: map[string]int{}}
			fresh.all(uint64(time.Now().UnixNano()), func(i int) bool { return i < n })
			defer fresh.conclude()
		}
	}
	c.conclude()
}

// What was found once stays mended: each plan in testdata is of a run that failed, as with the mutant of the same name if there is
// one.
func TestPlans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	c := &campaign{t: t, fail: t.Errorf, counts: map[string]int{}}
	for _, file := range files {
		c.run(planOf(t, file))
	}
	c.conclude()
}

// planOf reads a plan.
func planOf(t *testing.T, file string) (plan sim.Plan) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &plan))
	return plan
}

// setting is a number that was set.
func setting(t *testing.T, key string, otherwise int) int {
	text := os.Getenv(key)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// campaign is many runs.
type campaign struct {
	t     *testing.T
	fail  func(format string, args ...any) // is told of failures
	first bool                             // it ends with the first failure

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

// all runs seeds, on each CPU one at a time, as long as there is to be one more.
func (c *campaign) all(from uint64, more func(i int) bool) {
	var group sync.WaitGroup
	var taken int
	for range runtime.NumCPU() {
		group.Go(func() {
			for {
				c.mu.Lock()
				i, ok := taken, more(taken)
				taken++
				c.mu.Unlock()
				if !ok {
					return
				}
				c.run(draw(from + uint64(i)))
			}
		})
	}
	group.Wait()
}

// again runs a plan, several times if that is wanted.
func (c *campaign) again(plan sim.Plan) {
	times := setting(c.t, timesKey, 1)
	for range times {
		c.run(plan)
	}
	c.t.Logf("%d of %d times it fails", len(c.failures), times)
}

// run makes a run of a plan.
func (c *campaign) run(plan sim.Plan) {
	result, fails := c.simulate(plan)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.virtual += result.Took
	for what, n := range result.Counts {
		c.counts[what] += n
	}
	if fails == nil {
		return
	}
	c.t.Logf("seed %d: %s %s", plan.Seed, fails.rule(), fails.result.Breaches)
	if c.failures = append(c.failures, *fails); len(c.failures) == 1 {
		c.foundAfter = c.runs
	}
}

// simulate has a copy of this program make a run: what it draws at random follows from the seed, and with one thread, what the
// scheduler chooses.
func (c *campaign) simulate(plan sim.Plan) (result sim.Result, fails *failure) {
	text, err := json.Marshal(plan)
	require.NoError(c.t, err)
	reports, w, err := os.Pipe()
	require.NoError(c.t, err)
	defer reports.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSimulate$", "-test.timeout=0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, []*os.File{w}
	cmd.Env = append(environ(), planKey+"="+string(text), fmt.Sprint("GOMAXPROCS=", plan.Threads), "GODEBUG=asyncpreemptoff=1")
	require.NoError(c.t, startSeeded(cmd, plan.Seed))
	w.Close()
	watch := time.AfterFunc(tooLong, func() { cmd.Process.Signal(abort) })
	unfinished := json.NewDecoder(bufio.NewReaderSize(reports, 1<<20)).Decode(&result)
	err = cmd.Wait()
	watch.Stop()
	switch {
	case unfinished != nil || err != nil:
		return result, &failure{plan: plan, crash: said.String()}
	case len(result.Breaches) > 0:
		return result, &failure{plan: plan, result: result}
	}
	return result, nil
}

// environ is the environment without settings of Fiber.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FIBER_") })
}

// obey makes a run, in a copy of this program.
func obey(t *testing.T, text string) {
	// What is garbage is found when a run says so, not when there is much.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(2 << 30)
	var plan sim.Plan
	require.NoError(t, json.Unmarshal([]byte(text), &plan))
	result := sim.Simulate(func(run func()) { synctest.Test(t, func(*testing.T) { run() }) }, plan, program)
	if len(result.Breaches) == 0 {
		result.Timeline = nil
	}
	require.NoError(t, json.NewEncoder(os.NewFile(3, "reports")).Encode(result))
}

// complete fails where a fault, a kind of work or a check never bit: it can't fail.
func (c *campaign) complete() {
	for _, what := range counted() {
		if c.counts[what] == 0 {
			c.fail("%q: never in %d seeds", what, c.runs)
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
		c.t.Fatalf("after %d runs: seed %d: %s", c.foundAfter, c.failures[0].plan.Seed, c.failures[0].rule())
	}
	slices.SortFunc(c.failures, func(a, b failure) int { return cmp.Compare(a.plan.Seed, b.plan.Seed) })
	seen := map[string]bool{}
	for _, f := range c.failures {
		rule := f.rule()
		if seen[rule] || len(seen) == mostShrunk {
			c.fail("seed %d: %s (see above)", f.plan.Seed, rule)
			continue
		}
		seen[rule] = true
		f = c.shrink(f)
		plan, _ := json.Marshal(f.plan)
		c.fail("seed %d: %s\n%s\n%s%s\nThe plan that is left, for REPLAY=file:\n%s", f.plan.Seed, rule,
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
			_, fails := c.simulate(plan)
			if fails != nil && fails.rule() == rule {
				f, again = *fails, true
			}
		}
	}
	return f
}

// design.md says for each check what it is, and for each rule of failure which check, or which test, it has.
func TestRulesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/design.md")
	require.NoError(t, err)
	for name := range rules {
		require.Contains(t, string(text), "\n| `"+name+"` | ")
	}
	_, of, _ := strings.Cut(string(text), "\n## The rules of failure\n")
	of, _, _ = strings.Cut(of, "\n## ")
	paragraphs := regexp.MustCompile(`\n(- |\| )`).Split(of, -1)
	require.Greater(t, len(paragraphs), 20)
	for _, rule := range paragraphs[1:] {
		names := regexp.MustCompile("`([A-Za-z ]+)`").FindAllStringSubmatch(rule, -1)
		known := slices.ContainsFunc(names, func(name []string) bool { return rules[name[1]] || strings.HasPrefix(name[1], "Test") })
		require.True(t, known || strings.HasPrefix(rule, "when this dies"), rule)
	}
}
