package report_test

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

// many yields the events of a run of so many tasks of about a second each, of which a few fail, as its workers can run them.
func many(tasks, workers int) (report.Info, iter.Seq[event.Event]) {
	return report.Info{Program: "many", Began: began}, func(yield func(event.Event) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		add := func(d time.Duration, what event.What) {
			yield(event.Event{Time: at(d), Process: "MainProcess", What: what})
		}
		free := make([]time.Duration, workers)
		names := make([]string, workers)
		for i := range names {
			names[i] = fmt.Sprint("w", i)
			add(0, event.WorkerReady{Pool: "pool", Worker: names[i]})
		}
		add(0, event.CallBegan{Pool: "pool", Call: 1, Func: "f", Tasks: tasks})
		for i := range tasks {
			w := i % workers
			took := time.Duration(r.Int64N(int64(2 * time.Second)))
			t := event.Tasks{Pool: "pool", Call: 1, Func: "f", Worker: names[w], Index: i, Count: 1, Attempt: 1, Bytes: 10, Began: at(free[w]), Ended: at(free[w] + took), Took: took, Longest: took}
			if i%40 == 39 {
				t.Again, t.Err = 1, fmt.Sprintf("bad luck at %d", r.IntN(1000))
			}
			free[w] += took
			add(free[w], t)
			if i%(10*workers) < workers {
				add(free[w], event.ProcessStatus{Name: names[w], Resident: r.Int64N(1 << 30), CPU: free[w]})
			}
			if t.Again == 1 {
				t.Again, t.Err, t.Began, t.Ended, t.Attempt = 0, "", t.Ended, t.Ended.Add(took), 2
				free[w] += took
				add(free[w], t)
			}
		}
		add(slices.Max(free), event.CallEnded{Pool: "pool", Call: 1, Func: "f", Tasks: tasks, Done: tasks, Retried: tasks / 40})
		add(slices.Max(free), event.RunEnded{})
	}
}

// count returns the tasks in a recording's boxes, with those that failed among them.
func count(rec *report.Recording) (tasks, failed int) {
	tasks = len(rec.Boxes) / 5
	for x := range slices.Chunk(rec.Extras, 7) {
		tasks += int(x[1]) - 1
		failed += int(x[2] + x[3])
	}
	return tasks, failed
}

// However many tasks and workers, the recorder's memory is bounded, and so is the page; what is merged is counted.
func TestBounds(t *testing.T) {
	for _, x := range []struct{ workers, page int }{{300, 5 << 20}, {3000, 8 << 20}} {
		const tasks = 1_000_000
		info, all := many(tasks, x.workers)
		before := memory()
		r := recorded(info, all)
		used := memory() - before
		require.Less(t, used, int64(30<<20), "bytes")
		begun := time.Now()
		rec := r.Recording()
		var recording, page bytes.Buffer
		require.NoError(t, rec.WriteJSON(&recording))
		encoding := time.Since(begun)
		require.NoError(t, report.Page(&page, rec))
		require.Less(t, page.Len(), x.page)
		t.Logf("%d workers: %d KiB of memory, a page of %d KiB, %v to encode", x.workers, used>>10, page.Len()>>10, encoding)

		inBoxes, failed := count(rec)
		require.Equal(t, 60_000, len(rec.Boxes)/5)
		require.Equal(t, 10_000, failed)
		require.Equal(t, tasks+tasks/40, inBoxes+rec.Merged.Tasks)
		require.Equal(t, tasks/40, failed+rec.Merged.Retried)
		require.Equal(t, tasks+tasks/40, len(rec.Boxes)/5+rec.Merged.Boxes)
		require.Equal(t, tasks, sum(rec.Done))
		require.LessOrEqual(t, len(rec.Done), 600)
		require.Equal(t, x.workers, slices.Max(rec.Ready))
		done := 0
		for _, p := range rec.Processes {
			done += p.Done
		}
		require.Equal(t, tasks, done)
		require.Len(t, rec.Processes, min(x.workers, 2001))
		require.Equal(t, tasks, rec.Funcs[0].Done)
		require.Equal(t, tasks/40, rec.Funcs[0].Retried)
		runtime.KeepAlive(r)
	}
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The oldest calls that have ended are merged by function.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	var all []event.Event
	add := func(i int, what event.What) {
		all = append(all, event.Event{Time: at(time.Duration(i) * time.Millisecond), Process: "MainProcess", What: what})
	}
	add(0, event.CallBegan{Pool: "p", Call: 1, Func: "long", Tasks: -1})
	for i := 2; i < 5002; i++ {
		fn := fmt.Sprint("f", i%3)
		add(i, event.CallBegan{Pool: "p", Call: uint64(i), Func: fn, Tasks: 2})
		add(i, event.Tasks{Pool: "p", Call: uint64(i), Func: fn, Worker: "w", Count: 1, Took: time.Millisecond, Began: at(0), Ended: at(time.Millisecond)})
		err := ""
		if i == 3 {
			err = "task 1 failed"
		}
		add(i, event.CallEnded{Pool: "p", Call: uint64(i), Func: fn, Tasks: 2, Done: 1, Failed: 1, Err: err}) // of which one was missed
		if i%100 == 0 {
			add(i, event.Tasks{Pool: "p", Call: uint64(i), Func: fn, Worker: "w", Count: 1, Failed: 1, Began: at(0), Ended: at(time.Millisecond)}) // or was late
		}
	}
	add(6000, event.Tasks{Pool: "p", Call: 1, Func: "long", Worker: "w", Count: 3, Took: time.Second, Longest: time.Second, Bytes: 7, Began: at(0), Ended: at(time.Second)})
	rec := recorded(report.Info{Began: began}, slices.Values(all)).Recording()
	require.Len(t, rec.Calls, 4+1000)
	require.Len(t, rec.Funcs, 4)
	calls, done, failed, open := 0, 0, 0, 0
	for _, f := range rec.Funcs {
		calls, done, failed, open = calls+f.Calls, done+f.Done, failed+f.Failed, open+f.Open
	}
	require.Equal(t, []int{5001, 5003, 5000, 1}, []int{calls, done, failed, open})
	i := slices.IndexFunc(rec.Calls, func(c *report.Tally) bool { return c.Pool == "p" && c.Func == "long" })
	require.Equal(t, []int{1, 3, -1}, []int{rec.Calls[i].Open, rec.Calls[i].Done, rec.Calls[i].Tasks})
	require.Equal(t, int64(7), rec.Calls[i].Bytes)
	require.Equal(t, "task 1 failed", rec.Calls[2].Err, "those of f0 come after those of long and f2")
	require.Equal(t, "FAIL", rec.Entries[0].Level)
}

// Running times are known to within a bucket, a fifth; the longest exactly.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var times []time.Duration
	var all []event.Event
	for i := range 20_000 {
		took := time.Duration(math.Exp(r.NormFloat64()*2) * float64(50*time.Millisecond))
		times = append(times, took)
		all = append(all, event.Event{Time: at(took), What: event.Tasks{Func: "f", Worker: "w", Index: i, Count: 1, Took: took, Began: began, Ended: at(took)}})
	}
	slices.Sort(times)
	f := recorded(report.Info{Began: began}, slices.Values(all)).Recording().Funcs[0]
	for q, got := range map[float64]int64{0.5: f.P50, 0.95: f.P95, 0.99: f.P99} {
		want := float64(times[int(q*float64(len(times)))].Microseconds())
		require.InEpsilon(t, want, float64(got), math.Exp2(0.25)-1, q)
	}
	require.Equal(t, times[len(times)-1].Microseconds(), f.Max)
}

// A worker that was killed is not lost, but the page says why, whoever tells of its end first.
func TestWhyAWorkerWasKilled(t *testing.T) {
	t.Parallel()
	const why = "signal: killed: a task that was cancelled or timed out did not end"
	process := event.Event{Time: at(time.Second), What: event.ProcessEnded{Name: "w", Role: "worker", How: why}}
	pool := event.Event{Time: at(time.Second), What: event.WorkerEnded{Pool: "p", Worker: "w", Ready: true, Reason: why}}
	for _, all := range [][]event.Event{{process, pool}, {pool, process}} {
		all = append([]event.Event{{Time: at(0), What: event.WorkerStarting{Pool: "p", Worker: "w"}}, {Time: at(0), What: event.WorkerReady{Pool: "p", Worker: "w"}}}, all...)
		rec := recorded(report.Info{Began: began}, slices.Values(all)).Recording()
		n := slices.IndexFunc(rec.Processes, func(p *report.Process) bool { return p.Name == "w" })
		require.Equal(t, "ended", rec.Processes[n].State)
		require.Equal(t, why, rec.Processes[n].Reason)
		require.Zero(t, rec.Lost)
	}
}

// A recording that is read is the one that was written; one that is torn is an error.
func TestRecording(t *testing.T) {
	t.Parallel()
	var out, again bytes.Buffer
	info, all := made()
	require.NoError(t, recorded(info, slices.Values(all)).Recording().WriteJSON(&out))
	rec, err := report.ReadJSON(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	require.NoError(t, rec.WriteJSON(&again))
	require.Equal(t, out.String(), again.String())
	for _, n := range []int{100, out.Len() / 2, out.Len() - 2} {
		_, err = report.ReadJSON(bytes.NewReader(out.Bytes()[:n]))
		require.ErrorContains(t, err, "the recording is damaged")
	}
	for _, other := range []string{"", "{}", `{"Format":"fiber`, "<!doctype html>"} {
		_, err = report.ReadJSON(strings.NewReader(other))
		require.ErrorContains(t, err, "it is not a recording of a run")
	}
}

// What is long or strange has its bounds.
func TestStrange(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100_000)
	var all []event.Event
	add := func(when time.Time, what event.What) {
		all = append(all, event.Event{Time: when, Process: long, What: what})
	}
	add(time.Time{}, event.WorkerReady{Pool: long, Worker: long})
	add(began.AddDate(200, 0, 0), event.Tasks{Func: long, Pool: long, Worker: "", Count: 5, Failed: 5, Err: long, Began: at(time.Hour), Ended: at(0)})
	for i := range 3000 {
		add(at(0), event.Tasks{Func: fmt.Sprint("f", i), Worker: "w", Count: 1, Failed: 1, Err: fmt.Sprint(i, long), Began: at(0), Ended: at(0)})
		add(at(0), event.Log{Level: long, Message: long})
		add(at(0), event.ProcessEnded{Name: fmt.Sprint(i), Words: []string{long, long}})
	}
	add(at(0), event.Objects{List: make([]event.Object, 5000), More: 7})
	add(at(0), event.CallEnded{Call: 9, Func: "never began", Done: 1})
	add(at(0), event.WorkerEnded{Worker: "never started", Ready: true})
	var out bytes.Buffer
	rec := recorded(report.Info{Began: began}, slices.Values(all)).Recording()
	require.NoError(t, rec.WriteJSON(&out))
	require.Less(t, out.Len(), 16<<20)
	require.Equal(t, []int{2000, 3007}, []int{len(rec.Objects[rec.Entries[0].Process].List), rec.Objects[rec.Entries[0].Process].More})
	tasks, failed := count(rec)
	require.Equal(t, []int{3005, 3005}, []int{tasks, failed})
	require.LessOrEqual(t, len(rec.Names), 501)
}
