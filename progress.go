package fiber

import (
	"errors"
	"sync"

	"github.com/fiber-go/fiber/internal/guard"
)

// progress counts the tasks that have ended for an OnProgress. Its function is
// called on a goroutine of its own, which lives as long as there is something to
// tell: whatever the function does, it holds up no results. When it panics it is
// called no more, and the call fails.
type progress struct {
	fn func(done, total int)

	mu          sync.Mutex
	done, total int
	told        int // what fn was called with last
	telling     bool
	then        func(error) // called when all is told
	fail        func(error) // called when fn has panicked
	err         error       // that it has
}

// add counts n more.
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

// tell calls fn with what has ended, until it knows all.
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

// rest ends the telling, for good when fn has panicked.
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

// whenTold has then called once fn has returned from the call that tells of all
// that was counted, or has panicked, with the error that this is.
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

// whenFailed has fail called as soon as fn has panicked.
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
