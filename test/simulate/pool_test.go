package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"

	"slices"

	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// job is a task of a call.
type job struct {
	Book  int
	Call  int
	Index int
	Sleep time.Duration
	Do    string // besides: see work
	Fails int    // attempts after which it does that no more, 0 for never
	Seed  uint64 // of its call, 0 for none
	State bool   // its pool has one
	Value unruly
}

// unruly is a value that can't always be encoded.
type unruly struct{ Do string }

func (u unruly) MarshalBinary() ([]byte, error) {
	switch u.Do {
	case "encode":
		return nil, errors.New("refused to be encoded")
	case "encoder panics":
		panic("encoder")
	case "encoder sleeps":
		time.Sleep(20 * time.Millisecond)
	}
	return []byte(u.Do), nil
}

func (u *unruly) UnmarshalBinary(b []byte) error {
	if u.Do = string(b); u.Do == "decode" {
		return errors.New("refused to be decoded")
	}
	return nil
}

// done is a job's result.
type done struct {
	Call, Index, Value int
}

// poolBook notes what was run.
type poolBook struct {
	mu       sync.Mutex
	runs     map[[2]int]int             // how often a task was begun, by call and index
	failures map[[2]int]int             // how often it has failed
	seeds    map[[2]int]uint64          // what it was given
	broken   map[*sim.Process]time.Time // since when a process is to be replaced
	states   map[*kept]bool             // the open ones
	harmed   bool                       // workers end by themselves, or are killed
}

var work *fiber.Func[job, done]

func init() { work = fiber.Register("work", run) } // it refers to itself

func run(ctx context.Context, j job) (done, error) {
	w, b := here(), bookOf[*poolBook](j.Book)
	task, process := [2]int{j.Call, j.Index}, sim.Here()
	b.mu.Lock()
	if process.Alive() {
		b.runs[task]++
	}
	if since, broken := b.broken[process]; broken && time.Now().After(since) {
		w.breach(ruleReplaced, "task %d of call %d begins in %s, which is to be replaced", j.Index, j.Call, process.Name)
	}
	if seed, _ := fiber.TaskSeed(ctx); j.Seed != 0 {
		if before, again := b.seeds[task]; again && seed != before {
			w.breach(ruleSeed, "task %d of call %d has the seed %d, after %d", j.Index, j.Call, seed, before)
		} else if again {
			w.bit(ruleSeed)
		}
		b.seeds[task] = seed
	}
	b.mu.Unlock()
	if j.State {
		k, err := state.Get(ctx)
		if err != nil {
			w.breach(ruleState, "%v", err)
			return done{}, err
		}
		k.use(w)
		defer k.use(w)
	}
	select {
	case <-time.After(j.Sleep):
	case <-ctx.Done():
		if !strings.HasPrefix(j.Do, "heedless") {
			return done{}, ctx.Err()
		}
		for end := time.Now().Add(j.Sleep); sim.Here().Alive() && time.Now().Before(end); {
			time.Sleep(min(10*time.Second, time.Until(end)))
		}
	}
	info, _ := fiber.TaskFromContext(ctx)
	b.mu.Lock()
	if sure := w.harmed() == 0 && !b.harmed; process.Alive() && sure && info.Attempt > b.runs[task] {
		w.breach(ruleAttempts, "task %d of call %d is at attempt %d, and has begun %d times", j.Index, j.Call, info.Attempt, b.runs[task])
	}
	b.mu.Unlock()
	if j.Fails > 0 && info.Attempt > j.Fails {
		j.Do = ""
	}
	if slices.Contains(mayFail, j.Do) && process.Alive() {
		b.mu.Lock()
		b.failures[task]++
		if j.Do == "replace" {
			b.broken[process] = time.Now()
			w.bit(ruleReplaced)
		}
		b.mu.Unlock()
	}
	switch j.Do {
	case "fail":
		return done{}, fmt.Errorf("failed at %d of %d", j.Index, j.Call)
	case "replace":
		return done{}, fmt.Errorf("failed at %d of %d: %w", j.Index, j.Call, fiber.ErrReplaceWorker)
	case "panic":
		panic(fmt.Sprintf("failed at %d of %d", j.Index, j.Call))
	case "exit":
		w.run.Log("task %d of %d ends %s", j.Index, j.Call, sim.Here().Name)
		sim.Here().Kill()
	case "nest":
		return nested(ctx, w, j)
	}
	return done{j.Call, j.Index, j.Index * j.Index}, nil
}

// nested is a task that has a pool of its own.
func nested(ctx context.Context, w *world, j job) (done, error) {
	pool, err := fiber.NewPool(2, fiber.WithMaxAttempts(20))
	if err != nil {
		return done{}, err
	}
	defer pool.Terminate()
	ins := make([]job, 5)
	for i := range ins {
		ins[i] = job{Book: j.Book, Call: 1_000_000*(j.Call+1) + 1000*(j.Index+1) + int(time.Now().UnixNano()%1000), Index: i, Sleep: j.Sleep}
	}
	if j.Sleep%3 == 0 {
		ins[2].Do = "nest"
		ins[2].Sleep++
	}
	outs, err := fiber.Map(ctx, pool, work, ins)
	for i, out := range outs {
		if out.Index != i {
			w.breach(ruleRight, "%+v in a pool of a task for %d", out, i)
		}
	}
	return done{j.Call, j.Index, j.Index * j.Index}, err
}

var (
	ruleRight    = rule("outcomes are right")
	ruleLowest   = rule("lowest index")
	ruleAttempts = rule("attempts")
	ruleInnocent = rule("innocent")
	ruleTimeout  = rule("timeout")
	ruleProgress = rule("progress")
	ruleRetries  = rule("retries")
	ruleReplaced = rule("replaced")
	ruleState    = rule("state")
	ruleSeed     = rule("seed")
)

func init() {
	works["pool"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		attempts := []int{1, 2, 3, 3, 3, 10}[r.IntN(6)]
		workers := 1 + r.IntN(5)
		if w.run.Scale > 1 {
			workers = 20 + r.IntN(280)
		}
		opts := []fiber.PoolOption{fiber.WithMaxAttempts(attempts)}
		if r.IntN(3) == 0 {
			opts = append(opts, fiber.WithConcurrency(1+r.IntN(4)))
		}
		if r.IntN(5) == 0 {
			opts = append(opts, fiber.WithMaxTasksPerChild(1+r.IntN(20)))
		}
		if r.IntN(6) == 0 {
			opts = append(opts, fiber.WithAutoscale(r.IntN(workers), workers), fiber.WithIdleTimeout(time.Duration(1+r.IntN(300))*time.Millisecond))
		}
		w.load.Add(int64(workers))
		b := &poolBook{runs: map[[2]int]int{}, failures: map[[2]int]int{}, seeds: map[[2]int]uint64{}, broken: map[*sim.Process]time.Time{}, states: map[*kept]bool{}}
		number := w.book(b)
		if number%2 == 1 {
			opts = append(opts, fiber.WithState(state, number))
		}
		pool, err := fiber.NewPool(workers, opts...)
		if err != nil {
			return err
		}
		p := &poolWork{world: w, pool: pool, book: b, number: number, attempts: attempts}
		var group sync.WaitGroup
		for c := range 1 + r.IntN(4) {
			seed := r.Uint64()
			group.Go(func() { p.calls(ctx, c, rand.New(rand.NewPCG(seed, 0))) })
		}
		if number%3 == 1 { // not drawn, as all else would be another
			group.Go(func() { p.reduce(ctx, rand.New(rand.NewPCG(uint64(number), 7))) })
		}
		end := r.IntN(6)
		if end > 0 {
			for range r.IntN(3) {
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
				if err := w.within(ctx, r, settling, "Resize", func(ctx context.Context) error { return pool.Resize(ctx, 1+r.IntN(6)) }); err != nil {
					w.checkError("Resize", err)
				}
			}
		} else {
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			p.mu.Lock()
			p.closing = true
			p.mu.Unlock()
			p.shutdown(ctx)
		}
		group.Wait()
		if end == 1 {
			pool.Terminate()
		} else {
			pool.Close()
		}
		if p.number%3 == 0 {
			p.alone(ctx)
		}
		p.check()
		b.mu.Lock()
		defer b.mu.Unlock()
		if stats := pool.Stats(); end > 1 && p.harmed() == 0 && stats.WorkersLost+stats.WorkersKilled == 0 && !p.stuck {
			for k := range b.states {
				if slow := len(w.run.Faults) > 0 && k.of.Killed(); !slow { // Stop came after shutdown_grace
					p.breach(ruleState, "the state of %s is open", k.of.Name)
				}
			}
		}
		return nil
	}
}

// shutdown ends the pool in the middle of its work.
func (p *poolWork) shutdown(ctx context.Context) {
	if p.number%2 == 0 {
		p.pool.Terminate()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := p.pool.Shutdown(ctx); err != nil && !errors.Is(err, ctx.Err()) {
		p.breach(ruleErrors, "Shutdown: %v", err)
	}
	if left := p.pool.Stats().Processes; len(left) > 0 {
		p.breach(ruleErrors, "Shutdown has left %v", left)
	}
}

// alone runs a task in a process of its own.
func (p *poolWork) alone(ctx context.Context) {
	const call = 99_000
	err := p.ends(ctx, "Go", func(ctx context.Context) error {
		out, err := fiber.Go(ctx, work, job{Book: p.number, Call: call, Sleep: time.Millisecond}).Get(ctx)
		if err == nil {
			p.right([]done{out}, 1, call)
		}
		return err
	})
	if err != nil && p.harmed() == 0 && ctx.Err() == nil {
		p.breach(ruleInnocent, "Go: %v", err)
	}
}

// poolWork is a pool at work.
type poolWork struct {
	*world
	pool     *fiber.Pool
	book     *poolBook
	number   int
	attempts int

	mu      sync.Mutex
	closing bool
	killers bool // one of its calls has a task that ends its worker
	stuck   bool // or one that does not end
}

// calls makes calls, one after the other.
func (p *poolWork) calls(ctx context.Context, c int, r *rand.Rand) {
	for n := range 1 + r.IntN(4) {
		call := 100*c + n
		switch r.IntN(4) {
		case 0:
			p.apply(ctx, call, r)
		case 1:
			p.stream(ctx, call, r)
		default:
			p.mapCall(ctx, call, r)
		}
	}
}

// jobs draws the tasks of a call. bad is the lowest index of one that fails, n if none does.
func (p *poolWork) jobs(call, n int, r *rand.Rand) (ins []job, bad int) {
	ins, bad = make([]job, n), n
	longest := []int64{1, 1000, int64(time.Millisecond), int64(50 * time.Millisecond)}[r.IntN(4)]
	failing := 0 // one in so many fails, by itself, in one of these ways
	ways := []string{"fail", "panic", "exit", "encode", "encoder panics", "decode"}
	if r.IntN(3) == 0 {
		failing = 1 + r.IntN([]int{4, 2 * max(n, 1)}[r.IntN(2)])
		if r.IntN(2) == 0 {
			i := r.IntN(len(ways))
			ways = ways[i : i+1]
		}
	}
	for i := range ins {
		ins[i] = job{Book: p.number, Call: call, Index: i, Sleep: time.Duration(r.Int64N(longest))}
		if failing > 0 && r.IntN(failing) == 0 {
			ins[i].Do = ways[r.IntN(len(ways))]
			if ins[i].Value.Do = ins[i].Do; bad == n {
				bad = i
			}
			if ins[i].Do == "exit" {
				p.spoil(&p.killers)
			}
		} else if r.IntN(50) == 0 {
			ins[i].Value.Do = "encoder sleeps"
		} else if r.IntN(100) == 0 {
			ins[i].Do = "nest"
		}
	}
	for i := range ins {
		j := &ins[i]
		j.State, j.Seed = p.number%2 == 1, p.seed(call)
		if j.Do == "fail" && (i+call)%5 == 3 {
			j.Do = "replace"
		}
		switch again := p.retries(call) > 0; {
		case again && j.Do == "" && (i+call)%9 == 4:
			j.Do, j.Fails = mayFail[i%3], 1+i%2
		case again && slices.Contains(mayFail, j.Do) && (i+call)%2 == 1:
			j.Fails = 1 + (i+call)%4/2
		}
	}
	if bad = slices.IndexFunc(ins, func(j job) bool { return j.Do == "exit" || expectedText(j) != "" }); bad < 0 {
		bad = n
	}
	return ins, bad
}

// spoil notes that a call has a task for which workers end.
func (p *poolWork) spoil(how *bool) {
	p.mu.Lock()
	*how = true
	p.mu.Unlock()
	p.book.mu.Lock()
	p.book.harmed = true
	p.book.mu.Unlock()
}

// mayFail are the ways in which a function fails.
var mayFail = []string{"fail", "panic", "replace"}

// retries is how often the tasks of a call run again that have failed.
func (p *poolWork) retries(call int) int {
	if (call+p.number)%3 == 0 {
		return 2
	}
	return 0
}

// seed is a call's, 0 for none.
func (p *poolWork) seed(call int) uint64 { return uint64(call % 2 * (1 + call)) }

// encoding is how long a call that is over waits for the encoders of its inputs.
func encoding(ins []job) time.Duration {
	if slices.ContainsFunc(ins, func(j job) bool { return j.Value.Do == "encoder sleeps" }) {
		return time.Second
	}
	return 0
}

func (p *poolWork) options(r *rand.Rand, n, call int) (opts []fiber.CallOption) {
	opts = p.further(call)
	if r.IntN(3) == 0 {
		before, over := 0, false
		opts = append(opts, fiber.OnProgress(func(now fiber.Progress) {
			done, total := now.Done, now.Total
			if over || done < before || total > n || total >= 0 && done > total || done > n || now.Failed > done || now.Began.After(time.Now()) {
				p.breach(ruleProgress, "%d of %d are done after %d, of %d", done, total, before, n)
			}
			before, over = done, now.Over
			p.bit(ruleProgress)
		}))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, fiber.ChunkSize(1+r.IntN(30)))
	}
	return opts
}

// further are the options that follow from a call's number.
func (p *poolWork) further(call int) (opts []fiber.CallOption) {
	if n := p.retries(call); n > 0 {
		opts = append(opts, fiber.Retries(n))
		if call%2 == 0 {
			opts = append(opts, fiber.Backoff(time.Duration(call%5)*time.Millisecond, 20*time.Millisecond))
		}
	}
	if seed := p.seed(call); seed != 0 {
		opts = append(opts, fiber.Seed(seed), fiber.Priority(call%4-1))
	}
	return opts
}

func (p *poolWork) mapCall(ctx context.Context, call int, r *rand.Rand) {
	ins, bad := p.jobs(call, p.amount(r, 120, 12_000), r)
	var outs []done
	var late error
	err := p.within(ctx, r, encoding(ins), "Map", func(ctx context.Context) (err error) {
		if opts := p.options(r, len(ins), call); call%2 == 0 {
			outs, err = fiber.Map(ctx, p.pool, work, ins, opts...)
			late = ctx.Err()
		} else {
			outs, err, late = p.future(ctx, fiber.MapAsync(ctx, p.pool, work, ins, opts...), len(ins)%5 == 0)
		}
		return err
	})
	if err == nil {
		p.right(outs, len(ins), call)
	}
	p.outcome("Map", ins, bad, err, late)
}

// future waits for a future, or cancels it. late is why it may have failed.
func (p *poolWork) future(ctx context.Context, f *fiber.Future[[]done], cancel bool) (outs []done, err, late error) {
	if cancel {
		time.Sleep(time.Millisecond)
		f.Cancel()
		late = context.Canceled
	}
	if at, err := fiber.Wait(ctx, 1, f); err != nil && err != ctx.Err() || (err == nil) != (len(at) == 1) {
		p.breach(ruleRight, "Wait has returned %v, %v", at, err)
	}
	for i, err := range fiber.AsCompleted(ctx, f, f) {
		if i < 0 && err != ctx.Err() || i >= 0 && (err != nil || !f.Ready()) {
			p.breach(ruleRight, "AsCompleted has yielded %d, %v", i, err)
		}
	}
	outs, err = f.Get(context.Background())
	return outs, err, cmp.Or(late, ctx.Err())
}

func (p *poolWork) apply(ctx context.Context, call int, r *rand.Rand) {
	ins, bad := p.jobs(call, 1, r)
	var out done
	var late error
	opts := p.further(call)
	limit := time.Duration(0)
	if ins[0].Do == "" && r.IntN(3) == 0 {
		limit = time.Duration(1 + r.Int64N(int64(60*time.Millisecond)))
		ins[0].Sleep = time.Duration(r.Int64N(int64(2 * limit)))
		opts = append(opts, fiber.Timeout(limit))
		if r.IntN(2) == 0 {
			if ins[0].Do = "heedless"; r.IntN(2) == 0 {
				ins[0].Sleep = time.Hour // its worker is killed, if it is needed
				p.spoil(&p.stuck)
			}
		}
	}
	err := p.within(ctx, r, encoding(ins), "Apply", func(ctx context.Context) (err error) {
		out, err = fiber.Apply(ctx, p.pool, work, ins[0], opts...)
		late = ctx.Err()
		return err
	})
	if err == nil {
		p.right([]done{out}, 1, call)
		if limit > 0 && ins[0].Sleep > limit+time.Millisecond {
			p.breach(ruleTimeout, "a task that sleeps for %v has a result after a timeout of %v", ins[0].Sleep, limit)
		}
	}
	if limit > 0 {
		p.bit(ruleTimeout)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
	}
	p.outcome("Apply", ins, bad, err, late)
}

// results is an IMapUnordered by Results.
func (p *poolWork) results(ctx context.Context, pool *fiber.Pool, fn *fiber.Func[job, done], ins iter.Seq[job], opts ...fiber.CallOption) iter.Seq2[done, error] {
	return func(yield func(done, error) bool) {
		for r, err := range fiber.Results(ctx, pool, fn, ins, opts...) {
			if err == nil && (r.In.Index != r.Index || r.Attempts < 0 || r.Attempts > p.attempts+1+2 && p.attempts > 1 || r.Err == nil && r.Worker == "") {
				p.breach(ruleRight, "Results has yielded %+v", r)
			}
			if !yield(r.Out, cmp.Or(err, r.Err)) {
				return
			}
		}
	}
}

func (p *poolWork) stream(ctx context.Context, call int, r *rand.Rand) {
	ins, bad := p.jobs(call, 1+r.IntN(100), r)
	leave := len(ins)
	if r.IntN(3) == 0 {
		leave = r.IntN(len(ins))
	}
	ordered := r.IntN(2) == 0
	over := fiber.IMapUnordered[job, done]
	switch {
	case ordered:
		over = fiber.IMap[job, done]
	case call%2 == 1:
		over = p.results
	}
	seen := map[int]bool{}
	next := 0
	var late error
	err := p.within(ctx, r, encoding(ins), "IMap", func(ctx context.Context) (failure error) {
		for out, err := range over(ctx, p.pool, work, slices.Values(ins), p.options(r, len(ins), call)...) {
			late = ctx.Err()
			if err != nil {
				return err
			}
			if seen[out.Index] || out.Call != call || ordered && out.Index != next {
				p.breach(ruleRight, "%+v of a stream, for %d of %d", out, next, call)
			}
			seen[out.Index] = true
			if next++; next > leave {
				return nil
			}
		}
		if next != len(ins) && late == nil {
			p.breach(ruleRight, "a stream has ended after %d of %d", next, len(ins))
		}
		return nil
	})
	p.bit(ruleRight)
	if ordered {
		p.outcome("IMap", ins, bad, err, late)
	} else {
		p.outcome("IMapUnordered", ins, -1, err, late)
	}
}
