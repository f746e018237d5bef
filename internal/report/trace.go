package report

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/fiber-go/fiber/event"
)

// Trace writes what happens in Chrome's trace format, compressed, as it comes. A trace that was not closed is cut off, and is
// read up to there all the same. One goroutine may use it at a time.
type Trace struct {
	zip   *gzip.Writer
	began time.Time
	pools map[string]int
	lanes map[[2]string][]*lane // of a worker, in a pool
	last  int                   // number of a pool or a lane
}

// lane is a line of boxes that do not overlap, shown as a thread.
type lane struct {
	id    int
	until time.Time
	brief span // that may grow
}

// span is tasks that ended one after another.
type span struct {
	fn           string
	pool         int
	index, count int
	began, ended time.Time
}

// mergeWithin is how long a box of brief tasks is at most: what a row of them would show is one bar.
const mergeWithin = time.Millisecond

// traced is an event of the format. Its times are microseconds.
type traced struct {
	Name  string         `json:"name"`
	Kind  string         `json:"ph"`
	Pool  int            `json:"pid"`
	Lane  int            `json:"tid"`
	At    json.Number    `json:"ts,omitempty"`
	Took  json.Number    `json:"dur,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// NewTrace begins a trace.
func NewTrace(w io.Writer, info Info) *Trace {
	zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	_, _ = io.WriteString(zip, `[{"name":"fiber","ph":"M","pid":0}`)
	return &Trace{zip: zip, began: info.Began, pools: map[string]int{}, lanes: map[[2]string][]*lane{}}
}

// Add adds what has happened.
func (t *Trace) Add(e event.Event) {
	switch w := e.What.(type) {
	case event.Tasks:
		t.tasks(w)
	case event.WorkerEnded:
		if w.Lost {
			t.write(traced{Name: "lost: " + w.Reason, Kind: "i", Pool: t.pool(w.Pool), Lane: t.lane(w.Pool, w.Worker, time.Time{}, time.Time{}).id, At: us(e.Time.Sub(t.began)), Scope: "t",
				Args: map[string]any{"worker": w.Worker, "ran": w.Ran, "tasks": w.Tasks}})
		}
	}
}

// Flush has what was added be in what the trace is written to.
func (t *Trace) Flush() error {
	for _, lanes := range t.lanes {
		for _, l := range lanes {
			t.settle(l)
		}
	}
	return t.zip.Flush()
}

// Close ends the trace, and returns the first error of writing it.
func (t *Trace) Close() error {
	_ = t.Flush()
	_, _ = io.WriteString(t.zip, "]\n") // Close returns the error
	return t.zip.Close()
}

func (t *Trace) tasks(w event.Tasks) {
	began := w.Began
	if began.After(w.Ended) {
		began = w.Ended
	}
	l := t.lane(w.Pool, w.Worker, began, w.Ended)
	if w.Failed+w.Again == 0 && w.Attempt <= 1 {
		b := &l.brief
		if b.count > 0 && b.fn == w.Func && w.Ended.Sub(b.began) <= mergeWithin {
			b.count += w.Count
			b.ended = w.Ended
			return
		}
		t.settle(l)
		*b = span{w.Func, t.pool(w.Pool), w.Index, w.Count, began, w.Ended}
		return
	}
	t.settle(l)
	t.box(l, span{w.Func, t.pool(w.Pool), w.Index, w.Count, began, w.Ended}, map[string]any{"attempt": w.Attempt, "failed": w.Failed, "again": w.Again, "error": w.Err})
}

// settle writes the lane's box that may have grown.
func (t *Trace) settle(l *lane) {
	if l.brief.count > 0 {
		t.box(l, l.brief, map[string]any{})
		l.brief = span{}
	}
}

func (t *Trace) box(l *lane, b span, args map[string]any) {
	args["index"], args["count"] = b.index, b.count
	t.write(traced{Name: b.fn, Kind: "X", Pool: b.pool, Lane: l.id, At: us(b.began.Sub(t.began)), Took: us(b.ended.Sub(b.began)), Args: args})
}

// pool returns the number of a pool, which is shown as a process.
func (t *Trace) pool(name string) int {
	if t.pools[name] == 0 {
		t.last++
		t.pools[name] = t.last
		t.write(traced{Name: "process_name", Kind: "M", Pool: t.last, Args: map[string]any{"name": name}})
	}
	return t.pools[name]
}

// lane returns a worker's lane that is free, or a new one's, and has it taken until then. Boxes come when they
// end: of the lanes that are free, the one that was so for the shortest time leaves the others for boxes that began earlier.
func (t *Trace) lane(pool, worker string, began, ended time.Time) *lane {
	var free *lane
	lanes := t.lanes[[2]string{pool, worker}]
	for _, l := range lanes {
		if ended.IsZero() {
			return l
		}
		if !l.until.After(began) && (free == nil || l.until.After(free.until)) {
			free = l
		}
	}
	if free == nil {
		t.last++
		free = &lane{id: t.last}
		name := worker
		if len(lanes) > 0 {
			name += " (" + strconv.Itoa(len(lanes)+1) + ")"
		}
		t.lanes[[2]string{pool, worker}] = append(lanes, free)
		t.write(traced{Name: "thread_name", Kind: "M", Pool: t.pool(pool), Lane: free.id, Args: map[string]any{"name": name}})
	}
	free.until = ended
	return free
}

func (t *Trace) write(e traced) {
	b, _ := json.Marshal(e) // texts and numbers alone
	_, _ = t.zip.Write(append([]byte(",\n"), b...))
}

// us is a time in microseconds, exactly.
func us(d time.Duration) json.Number {
	return json.Number(strconv.FormatFloat(float64(d.Nanoseconds())/1e3, 'f', 3, 64))
}
