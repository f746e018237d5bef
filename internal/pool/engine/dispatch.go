package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// slots returns how many tasks all the pool's workers could run at a time.
func (e *Engine) slots() int {
	return max(1, e.target, e.in(starting, ready)) * e.opts.Concurrency
}

// dispatch hands out all the tasks that workers have room for. The batches are
// sent when the lock is released. It returns what it leaves behind.
func (e *Engine) dispatch() survey {
	e.resume()
	if len(e.suspects) > 0 || e.reserving {
		e.reserve()
	}
	s := e.survey()
	for held := 0; ; {
		c := e.next(held)
		w := s.best[idle]
		i := e.suspected(c)
		switch {
		case w != nil && i >= 0:
			x := &e.suspects[i]
			n := min(e.piece(x), e.remaining(w))
			e.batch(w, x.call, span{x.lo, x.lo + n}, true)
			if x.lo += n; x.len() == 0 {
				if e.suspects = slices.Delete(e.suspects, i, i+1); len(e.suspects) == 0 {
					e.reserve()
				}
			}
		case c == nil:
			return s
		case s.enough(c) && time.Now().Before(c.due()):
			e.wake(c.due())
			held++
			continue
		case c.again.Len() > 0 && s.free() > 0 && e.tryAgain(c):
			e.requeue(held)
			held = 0
		case !c.hasOthers():
			if s.free() == 0 && s.best[room] == nil {
				return s
			}
			held++
			continue
		default:
			if w = s.pick(c); w == nil {
				return s
			}
			e.batch(w, c, c.take(e.size(c, e.remaining(w))), false)
			e.requeue(held)
			held = 0
		}
		s = e.survey()
	}
}

// before says whether it is the worker's turn before that of another one of the same class.
func (w *worker) before(other *worker, is class) bool {
	if is == idle {
		return other.since.Before(w.since)
	}
	return w.holds.tasks < other.holds.tasks
}

// pick chooses a worker for a call's next tasks: an idle one, one with a free
// slot, or, for tasks known to be short, one that is busy with short ones. Very
// short tasks stay with the busy workers until there is enough work for more. A
// call of several tasks must first show that its own are short. Among those that
// could begin at once, one comes first that has what the next task refers to.
func (s *survey) pick(c *Call) *worker {
	seconds := c.seconds()
	short := seconds >= 0 && seconds <= pipelineTask && c.engine.opts.MaxAttempts > 1 &&
		(c.own.seconds >= 0 || c.total == 1 && !c.open)
	if w := s.best[room]; w != nil && short && s.enough(c) {
		return w
	}
	for _, class := range []class{idle, slot} {
		if w := s.best[class]; w != nil {
			return s.nearest(c, w, class)
		}
	}
	if !short {
		return nil
	}
	return s.best[room]
}

// nearest returns the worker of a class that has most of what a call's next task refers to. If several have, or none, the best one
// comes first.
func (s *survey) nearest(c *Call, best *worker, is class) *worker {
	if c.opts.Near == nil || s.count[is] == 1 {
		return best
	}
	has, all := c.opts.Near(c.first())
	if has == nil {
		return best
	}
	most := has(best.name)
	for _, w := range c.engine.workers {
		if most == all {
			break
		}
		if w.class() != is {
			continue
		}
		if n := has(w.name); n > most || n > 0 && n == most && w.before(best, is) {
			best, most = w, n
		}
	}
	return best
}

// enough reports whether the busy workers are enough for a call of very short
// tasks: to wake another one would take longer.
func (s *survey) enough(c *Call) bool {
	seconds := c.seconds()
	return seconds >= 0 && seconds < wakeSeconds &&
		s.load.Seconds()+seconds*float64(c.waiting()) < spreadSeconds*float64(s.up-s.count[idle])
}

// due returns until when a call's first result is worth waiting for, the zero
// time when it has come or none is on the way.
func (c *Call) due() time.Time {
	if c.own.seconds >= 0 || c.held.n == 0 {
		return time.Time{}
	}
	return c.held.first.at.Add(balanceInterval)
}

// remaining returns how many tasks a worker may still be given.
func (e *Engine) remaining(w *worker) int {
	if e.opts.MaxTasks == 0 {
		return math.MaxInt
	}
	return e.opts.MaxTasks - w.given
}

// size returns how many of a call's tasks to put in the next batch.
func (e *Engine) size(c *Call, most int) int {
	unit := max(1, c.opts.Chunk)
	n := unit
	if seconds := c.own.seconds; seconds >= 0 {
		if c.opts.Chunk > 0 {
			n = unit * min(max(1, int(chunkSeconds/(seconds*float64(unit)))), max(1, chunkTasks/unit))
		} else {
			n = min(int(batchSeconds/seconds), growth*max(1, c.largest))
		}
		// Half of an even share at most, so that all end at about the same
		// time, among as many workers as the work is worth.
		waiting := c.waiting()
		worth := int(seconds * float64(waiting) / spreadSeconds)
		n = min(n, max(unit, waiting/(2*max(1, min(worth, e.slots())))))
	}
	if c.cap > 0 {
		n = min(n, c.cap)
	}
	if c.perTask > 0 && c.opts.Chunk == 0 {
		n = min(n, int(batchBytes/c.perTask))
	}
	return max(1, min(n, most))
}

// suspected returns which suspect runs next, -1 if none does before the tasks of c, nil for none.
func (e *Engine) suspected(c *Call) int {
	first := -1
	for i, s := range e.suspects {
		if first < 0 || s.call.opts.Priority > e.suspects[first].call.opts.Priority {
			first = i
		}
	}
	if first >= 0 && c != nil && c.opts.Priority > e.suspects[first].call.opts.Priority {
		return -1
	}
	return first
}

// piece returns how many tasks of a suspect run together: one, or several if
// they are so short that together they take batchSeconds at most, but never so
// many that a worker would be left out.
func (e *Engine) piece(s *suspect) int {
	seconds := s.call.own.seconds
	if seconds < 0 {
		return 1
	}
	return max(1, min(int(batchSeconds/seconds), s.len()/(2*e.slots())))
}

// batch makes a batch of a call's tasks and enters it in a worker's row of the
// pending table.
func (e *Engine) batch(w *worker, c *Call, s span, solo bool) {
	e.lastID++
	seconds, now := c.seconds(), time.Now()
	atOnce := s.len() == 1 && w.batches.n < e.opts.Concurrency && e.opts.Concurrency > 1
	b := &batch{id: e.lastID, w: w, call: c, lo: s.lo, n: s.len(), next: s.lo, hi: s.hi, run: -1, try: 1 + c.reruns[s.lo], solo: solo, cost: max(0, seconds),
		tell: solo || e.opts.MaxAttempts == 1 || seconds < 0 || seconds >= announceSeconds && !atOnce,
		size: int(c.perTask * float64(s.len())), at: now, heard: now}
	b.begun = atOnce && !b.tell
	c.largest = max(c.largest, s.len())
	e.batches[b.id] = b
	c.held.add(b)
	w.batches.add(b)
	w.unsent.add(b)
	if !w.sends {
		w.sends = true
		e.senders = append(e.senders, w)
	}
	e.outgoing = append(e.outgoing, b)
	w.given += s.len()
	b.tally()
	if e.opts.MaxTasks > 0 && w.given >= e.opts.MaxTasks {
		e.drain(w)
	}
}

// leisure is how much time a goroutine has to send tasks: their source may
// encode them with methods of the user's, which may take any time.
type leisure int

const (
	hurried leisure = iota // it is the user's, and sends only what is encoded
	busy                   // it reads what a worker says, and leaves what may take long to another
	free                   // it does nothing else
)

// send sends a worker what has not been sent yet, in the order in which it was
// handed out, whichever goroutines call send: a later batch may take hours and
// must not run first. What the goroutine has no time for, another sends.
func (e *Engine) send(w *worker, has leisure) {
	if e.sendSome(w, has) {
		w.proc.Push()
	}
}

// sendSome is send, and reports whether some of it may still have to be pushed.
func (e *Engine) sendSome(w *worker, has leisure) (queued bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := 1; w.sending == nil && w.unsent.n > 0; n++ {
		b := w.unsent.first
		if has < free && b.takesTime(has) {
			go e.send(w, free)
			return queued
		}
		if queued && !b.quick() {
			queued = false
			e.mu.Unlock()
			w.proc.Push()
			e.mu.Lock()
			continue
		}
		w.unsent.remove(b)
		w.send(b)
		post := w.proc.Post
		if next := w.unsent.first; next != nil && next.quick() && n%together != 0 {
			post, queued = w.proc.Queue, true
		}
		e.mu.Unlock()
		slow := e.post(b, post, has == free)
		e.mu.Lock()
		if has == free {
			b.call.slow = slow
		}
		if w.sending != b {
			return queued // it was taken back, and others send by now
		}
		w.send(nil)
		// A cancellation or a recall that was sent meanwhile may have overtaken
		// the batch.
		if b.dead {
			w.cancel(b.call)
		}
		if b.call.cut {
			w.recall()
		}
		if w.watched == b { // it has room again
			e.wake(time.Now())
		}
	}
	return queued
}

// takesTime reports whether a goroutine with so much leisure has no time to encode the batch.
func (b *batch) takesTime(has leisure) bool {
	return b.call.slow || !b.call.opts.Encoded && (has == hurried || !b.call.opts.Plain)
}

// quick reports whether encoding the batch takes next to no time, so that what goes before it may wait for it.
func (b *batch) quick() bool {
	return !b.takesTime(busy) && (b.call.opts.Encoded || b.call.perTask > 0 && b.size <= quickBytes)
}

// relieve takes back what waits behind something that takes long to encode, and
// has it sent to others.
func (e *Engine) relieve(now time.Time) {
	slices.SortFunc(e.senders, func(a, b *worker) int { return cmp.Compare(a.number, b.number) })
	e.senders = slices.DeleteFunc(e.senders, func(w *worker) bool {
		if w.sends = w.sending != nil || w.unsent.n > 0; !w.sends {
			w.watched = nil // else its call stays reachable
		}
		return !w.sends
	})
	for _, w := range e.senders {
		switch b := w.sending; {
		case b == nil && w.unsent.n > 0:
			if due := w.unsent.first.at.Add(balanceInterval); now.Before(due) {
				e.wake(due)
			} else {
				go e.send(w, free)
			}
		case w.stalled():
			b.call.slow = true
			for b := range w.unsent.backward() {
				b.takeBack()
				b.giveBack(b.left())
			}
		case b != nil:
			e.wake(now.Add(balanceInterval))
		}
		if was := w.stalled(); w.watched != w.sending {
			if w.watched = w.sending; was != w.stalled() {
				w.changed()
			}
		}
	}
}

// post encodes a batch and posts it, unless it is taken back meanwhile. If the
// worker dies meanwhile, lost takes it back. When timed, post reports whether
// that took long.
func (e *Engine) post(b *batch, post func(...[]byte) error, timed bool) (slow bool) {
	var began time.Time
	if timed {
		began = time.Now()
	}
	value, err := b.call.source.Encode(b.lo, b.lo+b.n)
	slow = timed && time.Since(began) > balanceInterval
	if err != nil {
		e.unsendable(b, err)
		return slow
	}
	var flags wire.Flags
	if b.tell {
		flags |= wire.Announce
	}
	if b.begun {
		flags |= wire.Begun
	}
	if b.inline() {
		flags |= wire.Inline
	}
	if b.call.opts.StopOnError && b.call.opts.Retry == nil {
		flags |= wire.StopOnError
	}
	if b.call.opts.Single {
		flags |= wire.Single
	}
	if e.opts.Events.On() {
		flags |= wire.Timed
	}
	if b.call.opts.KeepFailed {
		flags |= wire.KeepFailed
	}
	msg := wire.Batch{ID: b.id, Call: b.call.id, Lo: b.lo, Count: b.n, Func: []byte(b.call.opts.Func),
		Timeout: int64(min(b.call.opts.Timeout, longest)), Attempt: b.try, Seed: b.call.opts.Seed, Flags: flags}
	if until := b.call.opts.Deadline; !until.IsZero() {
		msg.Left = int64(min(max(1, time.Until(until)), longest))
	}
	if b.call.opts.Keys != nil {
		msg.Keys = b.call.opts.Keys(b.lo, b.lo+b.n)
	}
	frames := msg.Pack(value)
	e.mu.Lock()
	b.sent = b.w.sending == b
	if b.sent {
		if b.begun {
			b.heard = time.Now()
		}
		b.call.perTask = average(b.call.perTask, value, b.n)
	}
	e.mu.Unlock()
	if !b.sent {
		return slow
	}
	if err := post(frames...); err != nil {
		if size := (*transport.SizeError)(nil); errors.As(err, &size) {
			e.unsendable(b, err)
		}
		return slow
	}
	if b.call.waitsFor != b.w {
		b.w.proc.Expect()
	}
	return slow
}

// longest is the longest time that a message can name.
const longest = math.MaxInt64 / 4

// average updates the average size of one value with the size of n more.
func average(each float64, value [][]byte, n int) float64 {
	bytes := 0
	for _, f := range value {
		bytes += len(f)
	}
	now := float64(bytes) / float64(n)
	if each == 0 {
		return now
	}
	return (each + now) / 2
}

// unsendable takes back a batch that could not be encoded or is too large. A
// single task fails; several are tried again in smaller batches.
func (e *Engine) unsendable(b *batch, cause error) {
	var input *InputError
	e.mu.Lock()
	c, w, left := b.call, b.w, b.left()
	if w.find(b.id) == nil {
		e.release()
		return
	}
	w.remove(b)
	w.given -= left.len()
	bad := -1
	var failed Outcome
	switch {
	case b.dead: // it is unwanted
	case errors.As(cause, &input) && input.Index >= left.lo && input.Index < left.hi:
		bad, cause = input.Index, input.Err
	case left.len() == 1:
		bad, c.cap = left.lo, 0 // it may have been to blame alone
	default:
		c.cap = max(1, left.len()/2)
		b.giveBack(left)
	}
	if bad >= 0 {
		b.giveBack(span{bad + 1, left.hi})
		b.giveBack(span{left.lo, bad})
		failed = Outcome{Lo: bad, N: 1, Failures: []Failure{{Index: bad, Err: cause}}}
		e.claim(c, failed)
	}
	e.freed(w)
	e.release()
	if bad >= 0 {
		e.deliver(c, failed)
	}
}

// reserve keeps workers free for suspects, which run only on workers that hold
// nothing else: as many as there are suspects, those that hold the least.
func (e *Engine) reserve() {
	e.reserving = len(e.suspects) > 0
	wanted := 0
	for _, s := range e.suspects {
		wanted += s.len()
	}
	var free []*worker
	for _, w := range e.workers {
		w.reserve(false)
		if w.holds.suspects > 0 {
			wanted--
		} else if w.state == ready && w.holds.abandoned == 0 && !w.ours {
			free = append(free, w)
		}
	}
	slices.SortStableFunc(free, func(a, b *worker) int { return a.holds.tasks - b.holds.tasks })
	for _, w := range free[:max(0, min(wanted, len(free)))] {
		w.reserve(true)
	}
}
