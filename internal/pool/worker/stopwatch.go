package worker

import "time"

const (
	// longTask is how long a task takes at least that is reported by itself.
	longTask = time.Millisecond
	// When briefGroup tasks in a row have taken less than briefTask, so many of the next are timed together: to read the clock takes
	// as long as one of them.
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
	group int           // how many tasks a lap has
	ran   int           // of the current lap
	task  int           // the last of them
	brief int           // how many laps in a row were brief
}

func newStopwatch(b *batch) *stopwatch { return &stopwatch{batch: b, began: time.Now(), group: 1} }

// lap notes that a task has ended.
func (w *stopwatch) lap(task int) {
	w.task = task
	if w.ran++; w.ran >= w.group {
		w.record()
	}
}

// record ends a lap. If several tasks have taken long together, it is not known which of them did.
func (w *stopwatch) record() {
	b, now := w.batch, time.Since(w.began)
	took := now - w.last
	switch {
	case took >= longTask && w.ran == 1:
		b.lock()
		b.times = append(b.times, lap{w.task, w.began.Add(w.last), took})
		b.mu.Unlock()
	case took < longTask && int64(took) > b.longest.Load():
		b.longest.Store(int64(took))
	}
	if w.brief++; took >= briefTask*time.Duration(w.ran) {
		w.brief = 0
	}
	if w.group = 1; w.brief >= briefGroup {
		w.group = briefGroup
	}
	w.last, w.ran = now, 0
}

// stop ends the last lap.
func (w *stopwatch) stop() {
	if w.ran > 0 {
		w.record()
	}
}
