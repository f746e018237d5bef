package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/metrics"
)

// counted returns the lines of a collector that has seen what has happened in a process.
func counted(t *testing.T, what ...event.What) []string {
	t.Helper()
	c, add := metrics.Counting("sweep\xff", "local")
	for _, w := range what {
		add(event.Event{Time: time.Now(), Process: "MainProcess", What: w})
	}
	return linesOf(t, c)
}

// linesOf returns what a collector has.
func linesOf(t *testing.T, c prometheus.Collector) (lines []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, answer.Code, answer.Body)
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// task is one that has ended, after a quarter of a second.
func task(call uint64, failed, again int) event.Tasks {
	return event.Tasks{Pool: "Pool1", Call: call, Func: "work", Worker: "w", Count: 1, Failed: failed, Again: again, Took: time.Second / 4, Bytes: 10}
}

func TestTasksAndCalls(t *testing.T) {
	t.Parallel()
	lines := counted(t,
		event.CallBegan{Pool: "Pool1", Call: 1, Func: "work", Tasks: 10, Kept: 2},
		task(1, 0, 0), task(1, 1, 0), task(1, 0, 1),
		event.Tasks{Pool: "Pool1", Call: 1, Func: "work", Worker: "w", Count: 3, Took: time.Second, Longest: time.Second / 2},
	)
	for _, line := range []string{`fiber_run_info{backend="local",program="sweep"} 1`, `fiber_calls_open{func="work"} 1`, `fiber_tasks_open{func="work"} 3`,
		`fiber_tasks_total{func="work",outcome="done"} 4`, `fiber_tasks_total{func="work",outcome="failed"} 1`, `fiber_task_retries_total{func="work"} 1`,
		`fiber_tasks_kept_total{func="work"} 2`, `fiber_result_bytes_total{func="work"} 30`, `fiber_task_duration_seconds_count{func="work"} 6`,
		`fiber_task_duration_seconds_sum{func="work"} 1.75`, `fiber_task_duration_seconds_bucket{func="work",le="0.1"} 0`,
		`fiber_task_duration_seconds_bucket{func="work",le="0.3"} 5`, `fiber_task_duration_seconds_bucket{func="work",le="+Inf"} 6`} {
		require.Contains(t, lines, line)
	}

	// What was missed is in the end of the call, and what comes after that is counted.
	lines = counted(t,
		event.CallBegan{Pool: "Pool1", Call: 1, Func: "work", Tasks: 10},
		task(1, 0, 0),
		event.Missed{Events: 7, Tasks: 7},
		event.CallEnded{Pool: "Pool1", Call: 1, Func: "work", Tasks: 10, Done: 8, Failed: 2, Retried: 3, Err: "no luck"},
		task(1, 0, 0),
		event.CallEnded{Pool: "Pool1", Call: 2, Func: "work", Tasks: 9, Kept: 4, Done: 5},
		event.Tasks{Pool: "Pool1", Call: 3, Func: "work", Worker: "w", Count: 1, Failed: 1}, // lost with its worker
	)
	for _, line := range []string{`fiber_calls_total{func="work",outcome="done"} 1`, `fiber_calls_total{func="work",outcome="failed"} 1`,
		`fiber_calls_open{func="work"} 0`, `fiber_tasks_open{func="work"} 0`, `fiber_tasks_total{func="work",outcome="done"} 13`,
		`fiber_tasks_total{func="work",outcome="failed"} 2`, `fiber_task_retries_total{func="work"} 3`, `fiber_tasks_kept_total{func="work"} 4`,
		`fiber_task_duration_seconds_count{func="work"} 2`, `fiber_events_missed_total 7`} {
		require.Contains(t, lines, line)
	}
}

func TestWorkersAndProcesses(t *testing.T) {
	t.Parallel()
	up := func(name string) []event.What {
		return []event.What{event.WorkerStarting{Pool: "Pool1", Worker: name}, event.ProcessStarted{Name: name, Role: "worker"},
			event.WorkerReady{Pool: "Pool1", Worker: name, Took: time.Second}, event.ProcessStatus{Name: name, Resident: 5, CPU: time.Second, Sent: 3}}
	}
	lost := func(name, reason string) []event.What {
		return []event.What{event.ProcessEnded{Name: name, Role: "worker"}, event.WorkerEnded{Pool: "Pool1", Worker: name, Ready: true, Lost: true, Reason: reason}}
	}
	var all []event.What
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, up(name)...)
	}
	all = append(all, lost("a", "exit code 3")...)
	all = append(all, lost("b", "signal: killed, OOMKilled: used 9 MiB of 8 MiB")...)
	all = append(all, lost("c", "signal: killed: nothing heard from it for 10s (heartbeat_timeout)")...)
	all = append(all, lost("d", "signal: segmentation fault")...)
	all = append(all, event.ProcessStatus{Name: "MainProcess", Resident: 7}, event.WorkerStarting{Pool: "Pool1", Worker: "f"}, event.WorkerStarting{Pool: "Pool1", Worker: "g"},
		event.Waiting{Name: "f", Reason: "no node has room"}, event.Waiting{Name: "g", Reason: "no node has room"}, event.Waiting{Name: "g"},
		event.WorkerEnded{Pool: "Pool1", Worker: "g", Reason: "no image"}, event.Log{Level: "WARN"})
	lines := counted(t, all...)
	for _, line := range []string{`fiber_workers{pool="Pool1",state="ready"} 1`, `fiber_workers{pool="Pool1",state="starting"} 1`,
		`fiber_workers_lost_total{pool="Pool1",reason="exit code 3"} 1`, `fiber_workers_lost_total{pool="Pool1",reason="OOMKilled"} 1`,
		`fiber_workers_lost_total{pool="Pool1",reason="heartbeat_timeout"} 1`, `fiber_workers_lost_total{pool="Pool1",reason="signal: segmentation fault"} 1`,
		`fiber_worker_start_failures_total{pool="Pool1"} 1`, `fiber_worker_start_duration_seconds_sum{pool="Pool1"} 5`,
		`fiber_processes{role="worker"} 1`, `fiber_processes{role="main"} 1`, `fiber_process_starts_total{role="worker"} 5`, `fiber_process_failures_total{role="worker"} 4`,
		`fiber_processes_resident_memory_bytes{role="worker"} 5`, `fiber_processes_resident_memory_bytes{role="main"} 7`,
		`fiber_processes_cpu_seconds_total{role="worker"} 5`, `fiber_processes_sent_bytes_total{role="worker"} 15`,
		`fiber_processes_waiting{reason="no node has room"} 1`, `fiber_log_messages_total{level="WARN"} 1`} {
		require.Contains(t, lines, line)
	}
}

// What is in a process ends with it, and so do the processes below it, whose end is not told. What they have used is not forgotten.
func TestEndOfWhatIsBelow(t *testing.T) {
	t.Parallel()
	c, add := metrics.Counting("sweep", "local")
	in := func(process string, all ...event.What) {
		for _, what := range all {
			add(event.Event{Time: time.Now(), Process: process, What: what})
		}
	}
	in("MainProcess", event.WorkerStarting{Pool: "outer", Worker: "a"}, event.ProcessStarted{Name: "a", Role: "worker"}, event.WorkerReady{Pool: "outer", Worker: "a"},
		event.ProcessStatus{Name: "a", CPU: time.Second})
	in("a", event.WorkerStarting{Pool: "inner", Worker: "b"}, event.ProcessStarted{Name: "b", Role: "worker"}, event.WorkerReady{Pool: "inner", Worker: "b"},
		event.ProcessStatus{Name: "b", CPU: 2 * time.Second}, event.CallBegan{Call: 1, Func: "work", Tasks: 5}, event.Waiting{Name: "c", Reason: "no room"},
		event.Objects{List: []event.Object{{ID: 1, Kind: "queue", Served: 3}}})
	in("b", event.CallBegan{Call: 1, Func: "work", Tasks: 5}, event.WorkerStarting{Pool: "inmost", Worker: "d"})
	lines := linesOf(t, c)
	for _, line := range []string{`fiber_calls_open{func="work"} 2`, `fiber_tasks_open{func="work"} 10`, `fiber_processes{role="worker"} 2`, `fiber_workers{pool="inner",state="ready"} 1`,
		`fiber_processes_waiting{reason="no room"} 1`} {
		require.Contains(t, lines, line)
	}
	in("MainProcess", event.ProcessEnded{Name: "a", Role: "worker"})
	lines = linesOf(t, c)
	for _, line := range []string{`fiber_calls_open{func="work"} 0`, `fiber_tasks_open{func="work"} 0`, `fiber_processes{role="worker"} 0`, `fiber_workers{pool="outer",state="ready"} 0`,
		`fiber_workers{pool="inner",state="ready"} 0`, `fiber_workers{pool="inmost",state="starting"} 0`, `fiber_processes_cpu_seconds_total{role="worker"} 3`,
		`fiber_object_requests_total{kind="queue"} 3`} {
		require.Contains(t, lines, line)
	}
	require.NotContains(t, strings.Join(lines, "\n"), "fiber_processes_waiting")
	in("MainProcess", event.WorkerEnded{Pool: "outer", Worker: "a", Ready: true, Lost: true, Reason: "exit code 3"})
	require.Contains(t, linesOf(t, c), `fiber_processes_cpu_seconds_total{role="worker"} 3`)
}

// What objects that are gone have served is not forgotten.
func TestObjects(t *testing.T) {
	t.Parallel()
	lines := counted(t,
		event.Objects{List: []event.Object{{ID: 1, Kind: "queue", Length: 3, Waiting: 1, Served: 10}, {ID: 2, Kind: "queue", Length: 4, Served: 5}}},
		event.Objects{More: 30_000}, // too many to say which
		event.Objects{List: []event.Object{{ID: 2, Kind: "queue", Length: 1, Served: 6}, {ID: 3, Kind: "shared value of Pool1Worker-7", Length: -1, Bytes: 9}}},
	)
	for _, line := range []string{`fiber_objects{kind="queue"} 1`, `fiber_object_items{kind="queue"} 1`, `fiber_object_requests_waiting{kind="queue"} 0`,
		`fiber_object_requests_total{kind="queue"} 16`, `fiber_object_bytes{kind="shared value of another process"} 9`} {
		require.Contains(t, lines, line)
	}
}

// However many functions, pools, reasons and calls there are, there is a bound to the lines.
func TestBounds(t *testing.T) {
	t.Parallel()
	var all []event.What
	for i := range 2000 {
		name := fmt.Sprint("name", i)
		all = append(all, event.CallBegan{Call: uint64(i), Func: name, Tasks: 1}, event.CallEnded{Call: uint64(i), Func: name, Tasks: 1, Done: 1},
			event.WorkerStarting{Pool: name, Worker: name + "Worker-1"}, event.WorkerStarting{Pool: "Process-" + name, Worker: "Process-" + name}, event.Waiting{Name: name, Reason: name},
			event.WorkerEnded{Pool: "Pool1", Worker: "w", Lost: true, Reason: fmt.Sprint("exit code ", i)})
	}
	lines := counted(t, all...)
	require.Contains(t, lines, `fiber_calls_total{func="others",outcome="done"} 1500`)
	require.Contains(t, lines, `fiber_processes_waiting{reason="others"} 1980`)
	require.Contains(t, lines, `fiber_workers{pool="others",state="starting"} 1902`)
	require.Contains(t, lines, `fiber_workers{pool="fiber.Go",state="starting"} 2000`)
	require.Less(t, len(lines), 502*28+102*25+100)
}
