package fiber

import (
	"errors"
	"sync"

	"github.com/fiber-go/fiber/internal/guard"
)

// progress counts the tasks that have ended, for OnProgress. The user's
// function runs on a goroutine of its own, which lives as long as there is
// news: a slow function delays no results. After a panic the function is not
// called again, and the call fails.
type progress struct {
	fn func(done, total int)

	mu          sync.Mutex
	done, total int
	told        int // the done that fn was last called with
	telling     bool
	then        func(error) // called when fn knows of all tasks
	fail        func(error) // called when fn has panicked
	err         error       // fn's panic
}

// add counts n more tasks.
func (p *progress) add(n int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if !p.telling && p.err == nil {
		p.telling = true
		go p.tell()
	}
}

// tell calls fn until it knows of all tasks that have ended.
func (p *progress) tell() {
	guard.Here(func() error {
		for {
			p.mu.Lock()
			done, total, more := p.done, p.total, p.told < p.done
			p.told = done
			p.mu.Unlock()
			if !more {
				return nil
			}
			p.fn(done, total)
		}
	}, p.rest)
}

// rest runs when tell has ended; err is set when fn has panicked, which ends
// the telling for good.
func (p *progress) rest(err error) {
	var stack []byte
	if panicked := (*guard.Panic)(nil); errors.As(err, &panicked) {
		stack = append([]byte("\n"), panicked.Stack...)
	}
	if err != nil {
		err = errorf("fiber: OnProgress: %w%s", err, stack)
	}
	p.mu.Lock()
	if err == nil && p.told < p.done { // counted just now
		go p.tell()
		p.mu.Unlock()
		return
	}
	p.telling, p.err = false, err
	fail, then := p.fail, p.then
	p.fail, p.then = nil, nil
	p.mu.Unlock()
	if err != nil && fail != nil {
		fail(err)
	}
	if then != nil {
		then(err)
	}
}

// whenTold calls then(nil) when fn has returned from the call with the last
// count, or then(err) when fn has panicked.
func (p *progress) whenTold(then func(error)) {
	p.mu.Lock()
	if p.telling {
		p.then = then
		p.mu.Unlock()
		return
	}
	err := p.err
	p.mu.Unlock()
	then(err)
}

// whenFailed calls fail as soon as fn has panicked.
func (p *progress) whenFailed(fail func(error)) {
	p.mu.Lock()
	err := p.err
	if err == nil {
		p.fail = fail
	}
	p.mu.Unlock()
	if err != nil {
		fail(err)
	}
}
