package fiber

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/self"
)

// progressEvery is how often OnProgress is told what has changed without the end of a task.
const progressEvery = time.Second

// progress counts the tasks that have ended, for OnProgress. The user's
// function runs on a goroutine of its own, which lives as long as there is
// news: a slow function delays no results. A panic of the function ends its calls,
// and the whole call fails.
type progress struct {
	fn      func(Progress)
	fail    func(error) // called when fn has panicked
	engine  *engine.Engine
	lost    int // workers that it had lost before
	retried atomic.Int64

	mu      sync.Mutex
	now     Progress    // but what tell looks up
	told    Progress    // what fn was last called with
	news    bool        // now may have changed since
	telling bool        // for good when fn has panicked
	then    func()      // called when fn knows that the call is over
	timer   *time.Timer // brings tick, until the call is over
	pace    pace
}

// of begins to count for a call of the pool, whose total is -1 while it is not known. Then end has to be called.
func (p *progress) of(o *callOptions, pool *Pool, total int) {
	if o.progress == nil {
		return
	}
	p.fn, p.engine, o.Retried = o.progress, pool.engine, &p.retried
	_, _, p.lost = p.engine.Processes()
	o.Number = observe.NextCall()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = Progress{Call: o.Number, Total: total, Began: time.Now()}
	p.pace = pace{began: p.now.Began, at: p.now.Began, over: paceSeconds}
	p.timer = self.AfterFunc(progressEvery, p.tick)
}

// changed has fn told of a change, unless the call is over. Of a nil progress nobody is told.
func (p *progress) changed(change func()) {
	if p == nil || p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Over {
		return
	}
	change()
	p.news = true
	if !p.telling {
		p.telling = true
		go p.tell()
	}
}

// add counts n more tasks, of which some have failed.
func (p *progress) add(n, failed int) {
	if p == nil {
		return
	}
	p.changed(func() {
		p.now.Done += n
		p.now.Failed += failed
		p.pace.count(n, time.Now())
	})
}

// had counts n tasks that a checkpoint had finished.
func (p *progress) had(n int) { p.changed(func() { p.now.Done += n }) }

// all sets the number of all tasks.
func (p *progress) all(n int) { p.changed(func() { p.now.Total = n }) }

// tick has fn told of what has changed meanwhile.
func (p *progress) tick() { p.changed(func() { p.timer.Reset(progressEvery) }) }

// end says that the call is over. It calls then, unless that is nil, when fn has returned from its last call. If fn has panicked,
// then is not called. When the call is over already, it is called at once.
func (p *progress) end(then func()) {
	first := false
	p.changed(func() {
		first, p.now.Over, p.then = true, true, then
		p.timer.Stop()
	})
	if !first && then != nil {
		then()
	}
}

// tell calls fn until it knows the last counts.
func (p *progress) tell() {
	var then func()
	guard.Here(func() error {
		for {
			starting, ready, lost := p.engine.Processes()
			p.mu.Lock()
			if !p.news {
				p.telling, then = false, p.then
				p.mu.Unlock()
				return nil
			}
			p.news = false
			p.pace.count(0, time.Now())
			now := p.now
			now.Retried, now.Starting, now.Ready, now.Lost = int(p.retried.Load()), starting, ready, lost-p.lost
			now.Rate, now.Left = p.pace.rate(), p.pace.left(now.Total-now.Done, now.Total >= 0)
			known := now == p.told
			p.told = now
			p.mu.Unlock()
			if !known {
				p.fn(now)
			}
		}
	}, func(err error) {
		switch {
		case err != nil:
			p.fail(errorf("fiber: OnProgress: %w", err))
		case then != nil:
			then()
		}
	})
}

const (
	// paceSeconds is how far back a pace goes: what is older by that counts a third.
	paceSeconds = 15
	// paceTasks is how many tasks it covers at least.
	paceTasks = 10
	// paceNone is how few tasks count as none.
	paceNone = 0.05
)

// pace is how fast tasks end, of late.
type pace struct {
	began, at      time.Time // the first moment that counts, and the last one
	all            int       // tasks since began
	over           float64   // seconds that it goes back
	tasks, seconds float64   // what counts of both
}

// count counts n tasks that have ended since the last count.
func (p *pace) count(n int, now time.Time) {
	fade := math.Exp(-now.Sub(p.at).Seconds() / p.over)
	p.at, p.all = now, p.all+n
	p.seconds = p.seconds*fade + p.over*(1-fade)
	if p.tasks = p.tasks*fade + float64(n); p.tasks < paceNone {
		p.tasks = 0
	}
	if n > 0 {
		p.over = max(paceSeconds, paceTasks*now.Sub(p.began).Seconds()/float64(p.all))
	}
}

func (p *pace) rate() float64 {
	if p.seconds <= 0 {
		return 0
	}
	return p.tasks / p.seconds
}

// left returns how long so many tasks take; -1 if their number isn't known, or the rate.
func (p *pace) left(tasks int, known bool) time.Duration {
	switch {
	case known && tasks <= 0:
		return 0
	case known && p.tasks > 0 && p.seconds > 0:
		return time.Duration(min(float64(tasks)/p.rate(), math.MaxInt64/2e9) * float64(time.Second))
	}
	return -1
}
