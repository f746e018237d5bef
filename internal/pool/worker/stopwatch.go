package worker

import "time"

const (
	// longTask is how long a task takes at least that is reported by itself.
	longTask = time.Millisecond
	// Of tasks that take less than briefTask, briefGroup are timed together: to read the clock takes as long as one of them.
	briefTask  = time.Microsecond
	briefGroup = 16
)

// lap is how long a task took.
type lap struct {
	index int
	began time.Time
	time  time.Duration
}

// stopwatch times the tasks of a batch that one goroutine runs.
type stopwatch struct {
	batch *batch
	began time.Time
	last  time.Duration // since began, when the last lap ended
	group int           // how many tasks a lap has; 0 while it does not run
	ran   int           // of the current lap
}

func (w *stopwatch) start(b *batch) { *w = stopwatch{batch: b, began: time.Now(), group: 1} }

// lap notes that a task has ended.
func (w *stopwatch) lap(task int) {
	if w.ran++; w.ran >= w.group {
		w.record(task)
	}
}

// record ends a lap, of which task was the last.
func (w *stopwatch) record(task int) {
	b, now := w.batch, time.Since(w.began)
	took := now - w.last
	switch {
	case took >= longTask && w.ran == 1:
		b.lock()
		b.times = append(b.times, lap{task, w.began.Add(w.last), took})
		b.mu.Unlock()
	case int64(took) > b.longest.Load():
		b.longest.Store(int64(took))
	}
	if w.group = 1; took < briefTask*time.Duration(w.ran) {
		w.group = briefGroup
	}
	w.last, w.ran = now, 0
}

// stop ends the last lap, whose tasks were brief so far.
func (w *stopwatch) stop() {
	if w.ran > 0 {
		w.record(-1)
	}
}
