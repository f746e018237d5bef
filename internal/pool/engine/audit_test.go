package engine

import (
	"fmt"
	"math"
)

// Audit counts again everything that the engine keeps a count of, and returns
// an error where the two differ.
func (e *Engine) Audit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var alive, up, spare, abandoned, batches int
	var load float64
	var count [classes]int
	waits := map[*Call]int{}
	for w := range e.workers {
		switch w.state {
		case ready:
			up++
			fallthrough
		case starting:
			alive++
		}
		var held, dead, bytes int
		solo := false
		for _, b := range w.batches {
			batches++
			bytes += b.size
			solo = solo || b.solo
			if e.batches[b.id] != b || b.w != w {
				return fmt.Errorf("%s holds batch %d, which the table does not know", w.name, b.id)
			}
			if b.dead {
				dead++
				continue
			}
			held += b.left().len()
			waits[b.call] += b.left().below(b.call.limit).len()
		}
		if held != w.held || dead != w.abandoned || bytes != w.bytes || solo != w.alone {
			return fmt.Errorf("%s holds %d tasks, %d abandoned batches, %d bytes, a suspect: %v; counted: %d, %d, %d, %v",
				w.name, held, dead, bytes, solo, w.held, w.abandoned, w.bytes, w.alone)
		}
		if class := w.classify(); class != w.class {
			return fmt.Errorf("%s, %v with %d batches, is in class %d, not in %d: reserved %v, recalling %v, late %v, alone %v, %d abandoned, %v seconds, %d bytes, %d suspects",
				w.name, w.state, len(w.batches), w.class, class, w.reserved, w.recalling, w.late, w.alone, w.abandoned, w.seconds, w.bytes, len(e.suspects))
		}
		spare += w.spare()
		abandoned += w.abandoned
		load += w.seconds
		if w.class != full {
			count[w.class]++
		}
	}
	if alive != e.alive || up != e.up || spare != e.spare || abandoned != e.abandoned || batches != len(e.batches) || count != e.count {
		return fmt.Errorf("alive %d, up %d, spare %d, abandoned %d, batches %d, classes %v; counted: %d, %d, %d, %d, %d, %v",
			alive, up, spare, abandoned, batches, count, e.alive, e.up, e.spare, e.abandoned, len(e.batches), e.count)
	}
	if math.Abs(load-e.load) > 1e-6*max(1, load) {
		return fmt.Errorf("the load is %v; counted: %v", load, e.load)
	}
	for class, n := range count {
		for w := e.lists[class].first; w != nil; w = w.next {
			n--
		}
		if n != 0 {
			return fmt.Errorf("the list of class %d is wrong by %d", class, n)
		}
	}
	for _, s := range e.suspects {
		waits[s.call] += s.len()
	}
	for c := range e.calls {
		n := waits[c] + c.waiting()
		for _, s := range c.delivering {
			n += s.below(c.limit).len()
		}
		if n != c.unresolved {
			return fmt.Errorf("call %d has %d tasks that are not delivered; counted: %d", c.id, n, c.unresolved)
		}
		if c.queued != c.hasWork() {
			return fmt.Errorf("call %d is in the ring: %v; it has work: %v", c.id, c.queued, c.hasWork())
		}
	}
	return nil
}
