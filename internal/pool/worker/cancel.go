package worker

import "github.com/fiber-go/fiber/internal/wire"

// cancel gives up a call's tasks from an index on.
func (w *Worker) cancel(c wire.Cancel) {
	var ended []*batch
	w.mu.Lock()
	kept := w.queue[:0]
	for _, b := range w.queue {
		if b.Call == c.Call && b.Lo >= c.From {
			ended = append(ended, b)
			continue
		}
		if b.Call == c.Call {
			b.stopAt(c.From - b.Lo)
		}
		kept = append(kept, b)
	}
	clear(w.queue[len(kept):])
	w.queue = kept
	for b := range w.running {
		if b.Call != c.Call {
			continue
		}
		b.stopAt(max(0, c.From-b.Lo))
		if b.Lo+b.started()-1 >= c.From {
			b.cancel()
		}
	}
	w.rest()
	w.mu.Unlock()
	for _, b := range ended {
		b.cancel()
		frames, err := (&wire.Results{Batch: b.ID, Started: -1, Ended: true}).Pack(nil)
		if err == nil {
			w.link.Post(frames...)
		}
	}
}

// giveBack gives back all tasks that have not been started. A leaving worker
// also gives back all that come later.
func (w *Worker) giveBack(back wire.Returned) {
	leaving := back.Leaving
	w.mu.Lock()
	w.leaving = w.leaving || leaving
	for b := range w.running {
		if from := b.stopAt(0); from < b.Count && !b.returned {
			b.returned = true
			back.Batches = append(back.Batches, wire.Remainder{Batch: b.ID, From: from})
		}
	}
	for _, b := range w.queue {
		back.Batches = append(back.Batches, wire.Remainder{Batch: b.ID})
		b.cancel()
	}
	clear(w.queue)
	w.queue = w.queue[:0]
	w.mu.Unlock()
	w.link.Post(wire.MustPack(wire.KindReturned, back)...)
}

// Abort makes the worker end as soon as nothing runs any more. The worker sends
// no more results: what a function returns because its context ends is not an
// outcome, and the pool runs the task again elsewhere.
func (w *Worker) Abort() {
	w.muted.Store(true)
	w.mu.Lock()
	w.stopping = true
	w.queue = nil
	for b := range w.running {
		b.stopAt(0)
	}
	w.rest()
	w.mu.Unlock()
}

// Leave gives back to the pool what has not been started, and what comes later. The
// pool stops the worker when what runs has finished.
func (w *Worker) Leave() { w.giveBack(wire.Returned{Leaving: true}) }

// replace is Leave for a worker of which a task has said that it is to be replaced.
func (w *Worker) replace() { w.giveBack(wire.Returned{Leaving: true, Broken: true}) }
