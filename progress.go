package fiber

import "sync"

// progress counts the tasks that have ended for an OnProgress. Its function is
// called on a goroutine of its own, which lives as long as there is something to
// tell: whatever the function does, it holds up no results.
type progress struct {
	fn func(done, total int)

	mu          sync.Mutex
	done, total int
	told        int // what fn was called with last
	telling     bool
	then        func() // called when all is told
}

// add counts n more.
func (p *progress) add(n int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if !p.telling {
		p.telling = true
		go p.tell()
	}
}

// tell calls fn with what has ended, until it knows all.
func (p *progress) tell() {
	defer p.rest() // also when fn ends its goroutine
	for {
		p.mu.Lock()
		done, total, more := p.done, p.total, p.told < p.done
		p.told = done
		p.mu.Unlock()
		if !more {
			return
		}
		p.fn(done, total)
	}
}

func (p *progress) rest() {
	p.mu.Lock()
	if p.told < p.done { // counted just now
		go p.tell()
		p.mu.Unlock()
		return
	}
	p.telling = false
	then := p.then
	p.then = nil
	p.mu.Unlock()
	if then != nil {
		then()
	}
}

// whenTold has then called once fn has returned from the call that tells of all
// that was counted.
func (p *progress) whenTold(then func()) {
	p.mu.Lock()
	if p.telling {
		p.then = then
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	then()
}
