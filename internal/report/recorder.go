// Package report makes a page or a trace of what happens in a run.
package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/fiber-go/fiber/event"
)

// What a Recorder keeps at most.
const (
	maxBoxes    = 50_000 // of tasks that have not failed
	maxFailures = 10_000 // boxes of tasks that have
	maxCalls    = 1_000
	maxFuncs    = 500
	maxWorkers  = 2_000
	maxEntries  = 2_000
	maxObjects  = 2_000
	maxText     = 300      // bytes of a name or an error
	maxWords    = 2_000    // bytes of what a process has written last, or of a message
	maxBins     = 600      // of the run's time
	binsAtOnce  = 10       // of these, in one bin of a process
	firstWidth  = 100_000  // microseconds of a bin, at first
	perDoubling = 4        // buckets of running times
	others      = "others" // the functions beyond maxFuncs
)

// Recorder adds up what happens in a run. It needs up to 30 MiB, however long the run. One goroutine may use it at a time.
type Recorder struct {
	rec      Recording // what it will be; the slices of counts are as long as they get
	calls    map[callID]*Tally
	workers  map[string]int32
	funcs    map[string]int32
	older    []*Tally // what is merged of each function
	boxes    []box
	failures []box
	ready    int // workers, now
	filled   int // the bins that say so
}

type callID struct {
	process string
	call    uint64
}

// box is one in the task stream. Its times are microseconds since the run began.
type box struct {
	began, ended, took             int64
	index                          int
	worker, fn                     int32
	count, failed, again, attempts int32
	err                            unique.Handle[string]
}

// NewRecorder returns a recorder of a run.
func NewRecorder(info Info) *Recorder {
	return &Recorder{
		rec: Recording{Format: format, Info: info, Width: firstWidth, Done: make([]int, maxBins), Failed: make([]int, maxBins),
			Ready: make([]int, maxBins), Objects: map[string]*event.Objects{}},
		calls: map[callID]*Tally{}, workers: map[string]int32{}, funcs: map[string]int32{},
	}
}

// Add adds what has happened.
func (r *Recorder) Add(e event.Event) {
	now := r.at(e.Time)
	switch w := e.What.(type) {
	case event.CallBegan:
		if w.Tasks == 1 { // there may be a million of them
			t := r.older[r.fn(w.Func)]
			t.Calls, t.Open, t.Tasks, t.Kept = t.Calls+1, t.Open+1, t.Tasks+1, t.Kept+w.Kept
			return
		}
		r.callBegan(callID{e.Process, w.Call}, &Tally{fn: r.fn(w.Func), Pool: cut(w.Pool, maxText), Calls: 1, Open: 1, Tasks: w.Tasks, Kept: w.Kept, Began: now, Times: map[int]int{}})
	case event.CallEnded:
		r.callEnded(callID{e.Process, w.Call}, w, now)
	case event.Tasks:
		r.tasks(callID{e.Process, w.Call}, w)
	case event.WorkerStarting:
		p := r.process(w.Worker, now)
		p.Role, p.Pool, p.State = "worker", cut(w.Pool, maxText), "starting"
	case event.WorkerReady:
		p := r.process(w.Worker, now)
		p.Role, p.Pool, p.State, p.Waits = "worker", cut(w.Pool, maxText), "ready", ""
		p.Ready++
		r.workersReady(1)
	case event.WorkerEnded:
		r.workerEnded(e.Process, w, now)
	case event.ProcessStarted:
		p := r.process(w.Name, now)
		p.Role, p.Func, p.ID, p.Host, p.Limit, p.GPUs, p.Waits = w.Role, cut(w.Func, maxText), cut(w.ID, maxText), cut(w.Host, maxText), w.Memory, len(w.GPUs), ""
		if p.State == "" {
			p.State = "running"
		}
	case event.ProcessStatus:
		p := r.process(w.Name, now)
		p.Resident, p.Peak, p.Shared, p.CPU, p.Sent, p.Received = w.Resident, max(p.Peak, w.Resident), w.Shared, w.CPU.Milliseconds(), w.Sent, w.Received
		i := int(now / r.rec.Width / binsAtOnce)
		if n := i + 1 - len(p.Memory); n > 0 {
			p.Memory, p.Used = append(p.Memory, make([]int64, n)...), append(p.Used, make([]int64, n)...)
		}
		p.Memory[i], p.Used[i] = max(p.Memory[i], w.Resident>>10), max(p.Used[i], p.CPU)
	case event.ProcessEnded:
		p := r.process(w.Name, now)
		p.Ended = now
		switch {
		case !w.OK:
			p.Words = cut(strings.Join(w.Words, "\n"), maxWords)
			if p.Role == "worker" { // the pool says it of one that was lost
				p.Reason = cmp.Or(p.Reason, cut(w.How, maxText))
				break
			}
			p.State, p.Reason = "lost", cut(w.How, maxText)
			r.entry(now, "LOST", e.Process, w.Name+" ended: "+w.How)
		case p.Reason == "":
			p.State = "ended"
		}
	case event.Waiting:
		r.process(w.Name, now).Waits = cut(w.Reason, maxText)
		if w.Reason != "" {
			r.entry(now, "WAIT", e.Process, w.Name+": "+w.Reason)
		}
	case event.Objects:
		r.objects(e.Process, w)
	case event.Log:
		r.entry(now, w.Level, e.Process, strings.Join(append([]string{w.Message}, w.Attrs...), " "))
	case event.Missed:
		r.rec.Missed = event.Missed{Events: r.rec.Missed.Events + w.Events, Tasks: r.rec.Missed.Tasks + w.Tasks}
	case event.RunEnded:
		r.rec.Ended, r.rec.Err = true, cut(w.Err, maxWords)
	}
}

// at returns the microseconds since the run began, for which there are bins then.
func (r *Recorder) at(t time.Time) int64 {
	us := max(t.Sub(r.rec.Began).Microseconds(), 0)
	for us >= r.rec.Width*maxBins {
		r.fold()
	}
	r.rec.Last = max(r.rec.Last, us)
	for last := int(r.rec.Last / r.rec.Width); r.filled <= last; r.filled++ {
		r.rec.Ready[r.filled] = r.ready
	}
	return us
}

// workersReady notes that there are so many more.
func (r *Recorder) workersReady(more int) {
	r.ready = max(r.ready+more, 0)
	r.rec.Ready[r.filled-1] = r.ready
}

// fold has each bin be as long as two were.
func (r *Recorder) fold() {
	sum := func(a, b int) int { return a + b }
	fold(r.rec.Done, sum)
	fold(r.rec.Failed, sum)
	fold(r.rec.Ready, func(_, later int) int { return later })
	if r.filled%2 == 1 {
		r.rec.Ready[r.filled/2] = r.ready
	}
	for _, p := range r.rec.Processes {
		fold(p.heat, func(a, b float32) float32 { return a + b })
		largest := func(a, b int64) int64 { return max(a, b) }
		p.Memory, p.Used = fold(p.Memory, largest), fold(p.Used, largest)
	}
	r.filled = (r.filled + 1) / 2
	r.rec.Width *= 2
}

// fold joins each two of a slice, and returns what has become of them; zeros follow in all.
func fold[T any](all []T, join func(a, b T) T) []T {
	n := (len(all) + 1) / 2
	for i := range n {
		var second T
		if 2*i+1 < len(all) {
			second = all[2*i+1]
		}
		all[i] = join(all[2*i], second)
	}
	clear(all[n:])
	return all[:n]
}

// fn returns the number of a function.
func (r *Recorder) fn(name string) int32 {
	name = cut(name, maxText)
	i, ok := r.funcs[name]
	switch {
	case ok:
		return i
	case len(r.older) >= maxFuncs && name != others:
		return r.fn(others)
	}
	i = int32(len(r.older))
	r.funcs[name], r.older = i, append(r.older, &Tally{Func: name, fn: i, Began: r.rec.Last, Times: map[int]int{}})
	return i
}

// number returns the number of a process; those beyond maxWorkers share one.
func (r *Recorder) number(name string, now int64) int32 {
	name = cut(name, maxText)
	i, ok := r.workers[name]
	switch {
	case ok:
		return i
	case len(r.rec.Processes) <= maxWorkers:
		i = int32(len(r.rec.Processes))
		r.workers[name] = i
		p := &Process{Name: name, Began: now}
		if i == maxWorkers {
			p = &Process{Name: "further processes", Began: now, Merged: true}
		}
		r.rec.Processes = append(r.rec.Processes, p)
		return i
	}
	return maxWorkers
}

func (r *Recorder) process(name string, now int64) *Process {
	return r.rec.Processes[r.number(name, now)]
}

func (r *Recorder) entry(now int64, level, process, text string) {
	r.rec.Entries, _ = push(r.rec.Entries, Entry{now, cut(level, maxText), cut(process, maxText), cut(text, maxWords)}, maxEntries)
}

// callBegan makes room for a call: the oldest one that has ended, or else the oldest one, is merged with others of its function.
func (r *Recorder) callBegan(id callID, t *Tally) {
	if len(r.rec.Calls) == maxCalls {
		i := max(slices.IndexFunc(r.rec.Calls, func(t *Tally) bool { return t.Open == 0 }), 0)
		old := r.rec.Calls[i]
		delete(r.calls, old.id)
		r.older[old.fn].merge(old)
		r.rec.Calls = slices.Delete(r.rec.Calls, i, i+1)
	}
	t.id, t.Func, r.calls[id] = id, r.older[t.fn].Func, t
	r.rec.Calls = append(r.rec.Calls, t)
}

func (r *Recorder) callEnded(id callID, w event.CallEnded, now int64) {
	t := r.calls[id]
	if t == nil {
		t = r.older[r.fn(w.Func)]
		t.Open = max(t.Open-1, 0)
		if w.Tasks == 1 {
			t.Retried += w.Retried
		}
	} else { // what was missed is in these counts
		t.Open, t.Tasks, t.Done, t.Failed, t.Retried = 0, w.Tasks, w.Done, w.Failed, w.Retried
	}
	t.Ended = now
	if w.Err != "" {
		t.Err = cut(w.Err, maxText)
		r.entry(now, "FAIL", id.process, "the call of "+w.Func+" in "+w.Pool+" failed: "+w.Err)
	}
}

func (r *Recorder) tasks(id callID, w event.Tasks) {
	b := box{began: r.at(w.Began), ended: r.at(w.Ended), took: w.Took.Microseconds(), index: w.Index, fn: r.fn(w.Func),
		count: int32(w.Count), failed: int32(w.Failed), again: int32(w.Again), attempts: int32(w.Attempt), err: unique.Make(cut(w.Err, maxText))}
	b.began = min(b.began, b.ended)
	b.worker = r.number(w.Worker, b.began)
	done := w.Count - w.Failed - w.Again
	t := cmp.Or(r.calls[id], r.older[b.fn])
	if t.Open > 0 || t == r.older[b.fn] { // those of a call that has ended are complete
		t.Done, t.Failed = t.Done+done, t.Failed+w.Failed
		if t != r.older[b.fn] { // else its end says so
			t.Retried += w.Again
		}
	}
	t.Bytes += int64(w.Bytes)
	t.took(w)
	p := r.rec.Processes[b.worker]
	p.Done, p.Failed, p.Busy = p.Done+done, p.Failed+w.Failed, p.Busy+b.took
	r.rec.Done[b.ended/r.rec.Width] += done
	r.rec.Failed[b.ended/r.rec.Width] += w.Failed
	stream, most := &r.boxes, maxBoxes
	if w.Failed+w.Again > 0 {
		stream, most = &r.failures, maxFailures
	}
	var old []box
	*stream, old = push(*stream, b, most)
	for _, b := range old {
		r.merge(b)
	}
}

// merge adds a box to the time that its worker was busy.
func (r *Recorder) merge(b box) {
	m := &r.rec.Merged
	*m = Merged{m.Boxes + 1, m.Tasks + int(b.count), m.Failed + int(b.failed), m.Retried + int(b.again), max(m.Until, b.ended)}
	p := r.rec.Processes[b.worker]
	if p.heat == nil {
		p.heat = make([]float32, maxBins)
	}
	for at := b.began; at < b.ended; {
		i := at / r.rec.Width
		next := min((i+1)*r.rec.Width, b.ended)
		p.heat[i] += float32(float64(b.took) * float64(next-at) / float64(b.ended-b.began) / 1e6)
		at = next
	}
}

func (r *Recorder) workerEnded(process string, w event.WorkerEnded, now int64) {
	p := r.process(w.Worker, now)
	p.Role, p.Pool, p.Ended, p.State, p.Waits = "worker", cut(w.Pool, maxText), now, "ended", ""
	if w.Ready {
		r.workersReady(-1)
	}
	if !w.Lost && (w.Ready || w.Reason == "") {
		return
	}
	p.Reason, p.Ran, p.Fate = cut(w.Reason, maxText), cut(w.Ran, maxText), cut(w.Tasks, maxText)
	level := "WARN"
	if p.State = "not started"; w.Lost {
		p.State, level, r.rec.Lost = "lost", "LOST", r.rec.Lost+1
	}
	if w.Ran != "" {
		w.Ran = "it ran " + w.Ran
	}
	words := slices.DeleteFunc([]string{w.Reason, w.Ran, w.Tasks}, func(s string) bool { return s == "" })
	r.entry(now, level, process, w.Worker+" "+p.State+": "+strings.Join(words, "; "))
}

// objects keeps a process's list, as far as there is room beside those of others.
func (r *Recorder) objects(process string, w event.Objects) {
	process = cut(process, maxText)
	delete(r.rec.Objects, process)
	room := maxObjects - len(r.rec.Objects)
	for _, o := range r.rec.Objects {
		room -= len(o.List)
	}
	if room <= 0 || len(w.List) == 0 {
		return
	}
	n := min(len(w.List), room)
	r.rec.Objects[process] = &event.Objects{List: w.List[:n], More: w.More + len(w.List) - n}
}

// took adds the running times of tasks. Of several, the longest is known, and the others together.
func (t *Tally) took(w event.Tasks) {
	longest := w.Longest
	if w.Count == 1 {
		longest = w.Took
	} else {
		t.Times[bucket((w.Took-longest)/time.Duration(w.Count-1))] += w.Count - 1
	}
	t.Times[bucket(longest)]++
	t.Max = max(t.Max, longest.Microseconds())
}

// bucket returns the number of the bucket of a running time. Four of them are a doubling.
func bucket(d time.Duration) int {
	return int(perDoubling * math.Log2(max(float64(d)/1e3, 1)))
}

// quantile returns the running time, in microseconds, that a part of the tasks took no longer than, to within a bucket.
func (t *Tally) quantile(part float64) int64 {
	n := 0
	for _, c := range t.Times {
		n += c
	}
	left := part * float64(n)
	for _, b := range slices.Sorted(maps.Keys(t.Times)) {
		c := float64(t.Times[b])
		if left <= c {
			return min(int64(math.Exp2((float64(b)+left/c)/perDoubling)), t.Max)
		}
		left -= c
	}
	return 0
}

// merge adds another tally.
func (t *Tally) merge(o *Tally) {
	t.Calls, t.Open, t.Tasks, t.Kept = t.Calls+o.Calls, t.Open+o.Open, t.Tasks+max(o.Tasks, 0), t.Kept+o.Kept
	t.Done, t.Failed, t.Retried, t.Bytes = t.Done+o.Done, t.Failed+o.Failed, t.Retried+o.Retried, t.Bytes+o.Bytes
	t.Began, t.Ended, t.Max, t.Err = min(t.Began, o.Began), max(t.Ended, o.Ended), max(t.Max, o.Max), cmp.Or(o.Err, t.Err)
	for b, n := range o.Times {
		t.Times[b] += n
	}
}

// push adds one to a list, and returns what is too old for it then.
func push[T any](all []T, x T, most int) (kept, old []T) {
	all = append(all, x)
	n := max(len(all)-most, 0)
	return all[n:], all[:n]
}

// cut returns a text of at most so many bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
