package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/registry"
)

// A model is an engine with real workers in this process, to which everything
// that may happen to them happens at random.
type model struct {
	t      *testing.T
	r      *rand.Rand // of the test's own goroutine
	opts   engine.Options
	engine *engine.Engine

	mu      sync.Mutex
	noise   *rand.Rand // of all others
	procs   []*proc    // that live
	kills   int        // by the test
	leaves  int        // the same, of workers told to leave
	deadly  bool       // some tasks are deadly
	refused bool       // the last start
	applied []*call    // by callers that wait for their only task

	callers  sync.WaitGroup
	lingered *atomic.Int64 // how often callers read, in all models
}

// chance draws under the lock. Which goroutine draws first is not determined,
// but every order must be right.
func (m *model) chance(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noise.IntN(n)
}

// latency returns how long a message, or a start, takes.
func (m *model) latency(most time.Duration) { time.Sleep(time.Duration(m.chance(int(most)))) }

// A deed is what a task does.
type deed int

const (
	fine deed = iota
	fails
	panics
	exits
	late   // heeds its context, after its time
	stuck  // heeds nothing
	deadly // takes its worker along
	deeds
)

// call is a call of the model: its source and the inputs of its function.
type call struct {
	*source
	model *model
	id    string
	deeds []deed
	took  []time.Duration
	opts  engine.CallOptions
	open  bool

	over      chan struct{} // closed by Finish
	mu        sync.Mutex
	runs      []int
	outcome   []string // "" for none, "ok", or the error
	doubled   []int
	cancelled time.Time
	cut       bool // it was open when the pool was closed
	after     bool // something was delivered after the end
	ended     bool
	failed    error // the call as a whole
}

var calls sync.Map // by id

var _ = func() struct{} {
	for _, name := range []string{"modelled", "applied"} {
		registry.Add(registry.Function, name, "", "here", &registry.Func{Name: name, Decode: func(frames [][]byte, _ int) (registry.Tasks, error) {
			var id string
			var lo, hi int
			if _, err := fmt.Sscan(string(frames[0]), &id, &lo, &hi); err != nil {
				return nil, err
			}
			c, _ := calls.Load(id)
			return &tasks{c.(*call), lo, make([]int, hi-lo)}, nil
		}})
	}
	return struct{}{}
}()

func (c *call) Encode(lo, hi int) ([][]byte, error) {
	c.model.latency(100 * time.Microsecond)
	return [][]byte{fmt.Append(nil, c.id, " ", lo, " ", hi)}, nil
}

func (c *call) Deliver(lo, n int, outputs [][]byte, failures []engine.Failure) []int {
	var values []int
	if len(outputs) > 0 {
		if err := json.Unmarshal(outputs[0], &values); err != nil || len(values) != n {
			c.model.t.Errorf("%d outputs for %d tasks, %v", len(values), n, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = c.after || c.ended && c.failed == nil && !c.opts.StopOnError // then what lies behind the first failure may come late
	outcome := make([]string, n)
	for _, f := range failures {
		outcome[f.Index-lo] = f.Err.Error()
	}
	for i := range n {
		if c.outcome[lo+i] != "" {
			c.doubled = append(c.doubled, lo+i)
		}
		if outcome[i] == "" {
			outcome[i] = "nothing"
			if i < len(values) {
				outcome[i] = fmt.Sprint(values[i])
			}
		}
		c.outcome[lo+i] = outcome[i]
	}
	return nil
}

func (c *call) Finish(err error) {
	c.mu.Lock()
	if c.ended {
		c.model.t.Error("a call ended twice")
	}
	c.ended, c.failed = true, err
	close(c.over)
	c.mu.Unlock()
	c.source.Finish(err)
}

// tasks are the tasks of a batch.
type tasks struct {
	call *call
	lo   int
	out  []int
}

func (b *tasks) Len() int    { return len(b.out) }
func (b *tasks) Clear(i int) { b.out[i] = 0 }

func (b *tasks) Results(_ context.Context, lo, hi int) ([][]byte, any, []*codec.Error, error) {
	frame, err := json.Marshal(b.out[lo:hi])
	return [][]byte{frame}, nil, nil, err
}

func output(i int) int { return 7*i + 1 }

func (b *tasks) Run(ctx context.Context, n int) error {
	i, p := b.lo+n, ctx.Value(procKey{}).(*proc)
	select {
	case <-p.dead: // a dead process runs nothing
		return errDead
	default:
	}
	b.call.mu.Lock()
	b.call.runs[i]++
	b.call.mu.Unlock()
	opts := p.model.opts
	if n := p.ran.Add(1); opts.MaxTasks > 0 && int(n) > opts.MaxTasks {
		p.model.t.Errorf("%d tasks in one process", n)
	}
	if n := p.running.Add(1); int(n) > opts.Concurrency {
		p.model.t.Errorf("%d tasks at a time", n)
	}
	defer p.running.Add(-1)
	pause := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := pause(b.call.took[i]); err != nil {
		return err
	}
	switch b.call.deeds[i] {
	case fails:
		return errors.New("it fails")
	case panics:
		panic("it panics")
	case exits:
		runtime.Goexit()
	case late:
		return pause(time.Hour)
	case stuck:
		time.Sleep(time.Minute)
	case deadly:
		p.kill()
		return errDead
	}
	b.out[n] = output(i)
	return nil
}

// apply makes short calls of one task, one after another, and waits for each. Now
// and then it waits no longer.
func (m *model) apply() {
	for n := range 1 + m.chance(50) {
		ctx, leave := context.WithCancel(context.Background())
		c := &call{source: newSource(), model: m, id: fmt.Sprintf("%p-%d-%p", m, n, ctx), over: make(chan struct{}), deeds: []deed{fine},
			took: []time.Duration{time.Duration(m.chance(int(20 * time.Microsecond)))}, runs: make([]int, 1), outcome: make([]string, 1)}
		c.opts = engine.CallOptions{Func: "applied", Awaited: true, Encoded: true}
		calls.Store(c.id, c)
		submitted, err := m.engine.Submit(c, 1, false, c.opts)
		if err != nil {
			leave()
			return // the pool is closed
		}
		m.mu.Lock()
		m.applied = append(m.applied, c)
		m.mu.Unlock()
		if m.chance(20) == 0 {
			time.AfterFunc(time.Duration(m.chance(int(time.Millisecond))), leave)
		}
		if submitted.Wait(ctx, c.over) != nil {
			submitted.Cancel()
			c.mu.Lock()
			c.cancelled = time.Now()
			c.mu.Unlock()
		}
		leave()
	}
}

// submit begins a call of a random kind.
func (m *model) submit(n int) *call {
	c := &call{source: newSource(), model: m, id: fmt.Sprintf("%p-%d", m, n), over: make(chan struct{})}
	total := []int{1, 5, 40, 300}[m.r.IntN(4)]
	c.opts = engine.CallOptions{Func: "modelled", Chunk: []int{0, 0, 0, 1, 7, 100}[m.r.IntN(6)], StopOnError: m.r.IntN(4) == 0}
	if m.r.IntN(3) == 0 {
		c.opts.Timeout = 50 * time.Millisecond
	}
	most := []time.Duration{0, 20 * time.Microsecond, time.Millisecond, 30 * time.Millisecond}[m.r.IntN(4)]
	bad := m.r.IntN(2) == 0
	for range total {
		did, took := fine, time.Duration(0)
		if bad && m.r.IntN(20) == 0 {
			did = deed(m.r.IntN(int(deeds)))
		}
		if c.opts.Timeout == 0 && (did == late || did == stuck) {
			did = fine
		}
		m.deadly = m.deadly || did == deadly
		if most > 0 {
			took = time.Duration(m.r.IntN(int(most)))
		}
		c.deeds, c.took = append(c.deeds, did), append(c.took, took)
	}
	c.runs, c.outcome = make([]int, total), make([]string, total)
	calls.Store(c.id, c)
	open := m.r.IntN(3) == 0
	first := total
	if open {
		first = m.r.IntN(total + 1)
	}
	submitted, err := m.engine.Submit(c, first, open, c.opts)
	require.NoError(m.t, err)
	c.open = open
	if open {
		go func() {
			for first < total {
				m.latency(10 * time.Millisecond)
				n := 1 + m.chance(total-first)
				submitted.Extend(n)
				first += n
			}
			submitted.CloseInput()
			c.mu.Lock()
			c.open = false
			c.mu.Unlock()
		}()
	}
	if m.r.IntN(4) == 0 {
		go func() {
			m.latency(200 * time.Millisecond)
			submitted.Cancel()
			c.mu.Lock()
			c.cancelled = time.Now()
			c.mu.Unlock()
		}()
	}
	return c
}

// wait blocks until the call has ended or is cancelled.
func (c *call) wait() {
	for begun := time.Now(); time.Since(begun) < 20*time.Minute; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		over := c.ended || !c.cancelled.IsZero()
		c.mu.Unlock()
		if over {
			return
		}
	}
	c.model.t.Fatalf("a call did not end: %+v", c.model.engine.Stats())
}

// expect returns an error if the call did not end as it must.
func (c *call) expect(m *model) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.doubled) > 0:
		return fmt.Errorf("tasks %v were delivered twice", c.doubled)
	case c.after:
		return errors.New("something was delivered after the end")
	}
	for i, n := range c.runs {
		if m.opts.MaxAttempts == 1 && n > 1 {
			return fmt.Errorf("task %d has run %d times, with one attempt", i, n)
		}
	}
	switch {
	case !c.ended && !c.cancelled.IsZero():
		return nil
	case !c.ended:
		return errors.New("the call has not ended")
	case c.failed == engine.ErrClosed && c.cut, c.failed != nil && strings.Contains(c.failed.Error(), "no room"):
		return nil
	case c.failed != nil:
		return c.failed
	}
	stopped := false
	for i, got := range c.outcome {
		if stopped {
			break // what lies behind may have been delivered, or not
		}
		lost := strings.Contains(got, "lost")
		want := [...]string{fine: fmt.Sprint(output(i)), fails: "it fails", panics: "panic: it panics", exits: "runtime.Goexit",
			late: "deadline exceeded", stuck: "deadline exceeded", deadly: "lost"}[c.deeds[i]]
		slow := c.opts.Timeout > 0 && strings.Contains(got, "deadline exceeded") // it waited for what came before
		excused := lost && m.opts.MaxAttempts == 1 && (m.kills > 0 || m.deadly && m.opts.Concurrency > 1)
		if !strings.Contains(got, want) && !excused && !slow {
			return fmt.Errorf("task %d, a %d, ended with %q, not %q, in %d runs", i, c.deeds[i], got, want, c.runs[i])
		}
		if c.deeds[i] == deadly && lost && !excused && c.runs[i]+m.kills < m.opts.MaxAttempts { // of the kills, one may have come just before it
			return fmt.Errorf("task %d is lost, and has run %d times", i, c.runs[i])
		}
		if c.runs[i] > m.opts.MaxAttempts+1+m.leaves {
			return fmt.Errorf("task %d has run %d times", i, c.runs[i])
		}
		stopped = c.opts.StopOnError && got != fmt.Sprint(output(i))
	}
	return nil
}

// Whatever happens to workers, calls and messages, each task is delivered once,
// with the outcome that it would have in a plain loop, and the engine's counts
// are right.
func TestModel(t *testing.T) {
	t.Parallel()
	runs := 400
	if testing.Short() {
		runs = 100
	}
	var lingered atomic.Int64
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { modelled(t, uint64(seed), &lingered) })
		})
	}
	require.Greater(t, lingered.Load(), int64(runs), "callers read their results themselves")
}

func modelled(t *testing.T, seed uint64, lingered *atomic.Int64) {
	m := &model{t: t, lingered: lingered, r: rand.New(rand.NewPCG(seed, 0)), noise: rand.New(rand.NewPCG(seed, 1))}
	names := 0
	m.opts = engine.Options{Workers: 1 + m.r.IntN(5), Concurrency: 1 + m.r.IntN(3), MaxAttempts: []int{1, 3, 4}[m.r.IntN(3)],
		CancelGrace: time.Second, ShutdownGrace: time.Second, Log: slog.New(slog.DiscardHandler),
		Name: func() string { names++; return fmt.Sprintf("w-%d", names) }, Start: m.start, Ending: context.Background()}
	if m.r.IntN(4) == 0 {
		m.opts.MaxTasks = 1 + m.r.IntN(50)
	}
	if m.r.IntN(4) == 0 {
		m.opts.Min, m.opts.Max, m.opts.IdleTimeout = m.opts.Workers, m.opts.Workers+3, 10*time.Millisecond
	}
	m.engine = engine.New(m.opts)
	var all []*call
	for range 10 + m.r.IntN(30) {
		time.Sleep(time.Duration(m.r.IntN(int(20 * time.Millisecond))))
		require.NoError(t, m.engine.Audit())
		switch m.r.IntN(8) {
		case 0, 1, 2:
			all = append(all, m.submit(len(all)))
		case 3:
			m.mu.Lock()
			if len(m.procs) > 0 && (m.opts.MaxAttempts == 1 || m.kills < m.opts.MaxAttempts-1) {
				m.kills++
				m.procs[m.r.IntN(len(m.procs))].kill()
			}
			m.mu.Unlock()
		case 4:
			m.mu.Lock()
			if len(m.procs) > 0 {
				m.leaves++
				go m.procs[m.r.IntN(len(m.procs))].worker.Leave()
			}
			m.mu.Unlock()
		case 5:
			n := 1 + m.r.IntN(6)
			go m.engine.Resize(t.Context(), n)
		case 6:
			if m.r.IntN(4) == 0 {
				m.engine.Renew()
			}
		case 7:
			m.callers.Go(m.apply)
		}
	}
	for _, c := range all {
		if m.r.IntN(2) == 0 {
			c.wait()
		}
	}
	end, terminated := m.engine.Close, m.r.IntN(3) == 0
	if terminated {
		end = m.engine.Terminate
	}
	for _, c := range all {
		c.mu.Lock()
		c.cut = c.open || terminated && !c.ended
		c.mu.Unlock()
	}
	closed := make(chan struct{})
	go func() {
		end()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Minute):
		t.Fatalf("the pool did not end: %+v", m.engine.Stats())
	}
	m.callers.Wait()
	time.Sleep(2 * time.Minute) // what is stuck, in a dead process
	require.NoError(t, m.engine.Audit())
	for _, c := range m.applied {
		c.cut = terminated
	}
	for n, c := range append(all, m.applied...) {
		require.NoError(t, c.expect(m), "call %d of %d tasks, %+v; %d kills, %+v", n, len(c.deeds), c.opts, m.kills, m.opts)
	}
}
