package report_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

// traced is an event of Chrome's format.
type traced struct {
	Name, Ph, S string
	Pid, Tid    int
	Ts, Dur     float64
	Args        map[string]any
}

func unzipped(t *testing.T, b []byte) []byte {
	zip, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	text, err := io.ReadAll(zip)
	if err != nil {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	return text
}

// A trace is valid JSON; a pool is a process, a worker as many threads as it runs tasks at a time, on which none overlap.
func TestTrace(t *testing.T) {
	t.Parallel()
	info, all := made()
	r := rand.New(rand.NewPCG(5, 6))
	var free [3]time.Duration // of a worker that runs three at a time
	var tasks []event.Event
	for i := range 500 {
		n := r.IntN(3)
		took := time.Duration(r.Int64N(int64(time.Second)))
		tasks = append(tasks, event.Event{Time: at(free[n] + took), What: event.Tasks{Pool: "second", Func: "<g>", Worker: "wide", Index: i, Count: 1, Attempt: 1, Took: took, Began: at(free[n]), Ended: at(free[n] + took)}})
		free[n] += took
	}
	slices.SortFunc(tasks, func(a, b event.Event) int { return a.Time.Compare(b.Time) })

	var out bytes.Buffer
	trace := report.NewTrace(&out, info)
	for _, e := range append(all, tasks...) {
		trace.Add(e)
	}
	require.NoError(t, trace.Flush())
	torn := append(unzipped(t, out.Bytes()), ']') // as Perfetto reads it
	require.NoError(t, trace.Close())
	whole := unzipped(t, out.Bytes())
	require.Equal(t, string(whole), string(torn)+"\n")
	var events []traced
	require.NoError(t, json.Unmarshal(whole, &events))

	threads, pools, last, boxes := map[string]int{}, map[string]int{}, map[int]traced{}, 0
	slices.SortStableFunc(events, func(a, b traced) int { return int(a.Ts*1000) - int(b.Ts*1000) })
	for _, e := range events {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			threads[e.Args["name"].(string)] = e.Tid
		case e.Ph == "M" && e.Name == "process_name":
			pools[e.Args["name"].(string)] = e.Pid
		case e.Ph == "X":
			boxes++
			require.LessOrEqual(t, last[e.Tid].Ts+last[e.Tid].Dur, e.Ts+0.0005, "boxes overlap")
			last[e.Tid] = e
		}
	}
	require.Equal(t, 2305+500, boxes)
	require.Len(t, threads, 9+3)
	require.Contains(t, threads, "wide (3)")
	require.Len(t, pools, 2)
	lost := slices.IndexFunc(events, func(e traced) bool { return e.Ph == "i" })
	require.Equal(t, []any{"lost: OOMKilled: it used more than its memory, 512 MiB", threads["rollouts-5"], "t"}, []any{events[lost].Name, events[lost].Tid, events[lost].S})
	failed := slices.IndexFunc(events, func(e traced) bool { return e.Args["error"] != nil })
	require.Contains(t, fmt.Sprint(events[failed].Args), "simulation diverged: reward is NaN")
	require.Less(t, float64(0), events[failed].Ts)

	out.Reset()
	require.NoError(t, report.NewTrace(&out, info).Close())
	require.NoError(t, json.Unmarshal(unzipped(t, out.Bytes()), &events))
}

// Brief tasks that follow one another are one box of a millisecond at most; a failure among them is one of its own.
func TestTraceOfBriefTasks(t *testing.T) {
	t.Parallel()
	info, _ := made()
	var out bytes.Buffer
	trace := report.NewTrace(&out, info)
	const tasks, each = 1000, 10 * time.Microsecond
	for i := range tasks {
		began := at(time.Duration(i) * each)
		what := event.Tasks{Pool: "p", Func: "f", Worker: "w", Index: i, Count: 1, Attempt: 1, Began: began, Ended: began.Add(each / 2)}
		if i == 500 {
			what.Failed, what.Err = 1, "broken"
		}
		trace.Add(event.Event{Time: what.Ended, What: what})
	}
	require.NoError(t, trace.Close())
	var events []traced
	require.NoError(t, json.Unmarshal(unzipped(t, out.Bytes()), &events))
	count, boxes, failed := 0.0, 0, 0
	for _, e := range events {
		if e.Ph != "X" {
			continue
		}
		boxes++
		count += e.Args["count"].(float64)
		require.LessOrEqual(t, e.Dur, 1000.0)
		if e.Args["error"] != nil {
			failed++
			require.Equal(t, []any{500.0, 1.0}, []any{e.Args["index"], e.Args["count"]})
		}
	}
	require.EqualValues(t, tasks, count)
	require.Equal(t, 1, failed)
	require.InDelta(t, 11, boxes, 2)
}
