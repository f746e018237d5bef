package report_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/report"
)

var began = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func at(d time.Duration) time.Time { return began.Add(d) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// made returns the events of a run that was made up: a search by evolution strategies, whose generations are calls of their
// own, with workers of which one is lost.
func made() (info report.Info, all []event.Event) {
	info = report.Info{Program: "walker-es", Backend: "kubernetes", Machine: "gpu-pool, 3 nodes", Go: "go1.26.8", Began: began}
	r := rand.New(rand.NewPCG(7, 7))
	add := func(s float64, what event.What) {
		all = append(all, event.Event{Time: at(seconds(s)), Process: "MainProcess", What: what})
	}
	const pool = "rollouts"
	name := func(i int) string { return fmt.Sprintf("rollouts-%d", i) }
	ready := map[int]float64{}
	up := func(i int, s, took float64) {
		add(s, event.WorkerStarting{Pool: pool, Worker: name(i)})
		add(s+took*0.9, event.ProcessStarted{Name: name(i), Role: "worker", ID: fmt.Sprintf("walker-es-%05x", 7919*(i+40)), Host: fmt.Sprintf("node-%d", i%3+1), Memory: 512 << 20, Took: seconds(took)})
		add(s+took, event.WorkerReady{Pool: pool, Worker: name(i), Took: seconds(took)})
		ready[i] = s + took
	}
	add(0.1, event.ProcessStarted{Name: "MainProcess", Role: "", ID: "walker-es", Host: "node-1"})
	for i := 1; i <= 8; i++ {
		up(i, 0.4, 1.2+r.Float64()*2.4)
	}
	add(0.5, event.Waiting{Name: name(8), Reason: "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"})
	add(2.1, event.Waiting{Name: name(8)})
	free := map[int]float64{}
	for i, s := range ready {
		free[i] = s
	}
	base := map[int]float64{}
	for i := 1; i <= 9; i++ {
		base[i] = 0.8 + r.Float64()*0.5
	}
	cpu, now, call := map[int]float64{}, 4.0, uint64(0)
	lostAt, index := 0.0, 0
	task := func(fn string, call uint64, i, index int, took float64, attempt int, failed, again bool, err string) {
		w := event.Tasks{Pool: pool, Call: call, Func: fn, Worker: name(i), Index: index, Count: 1, Attempt: attempt, Bytes: 3200, Err: err,
			Began: at(seconds(free[i])), Ended: at(seconds(free[i] + took)), Took: seconds(took), Longest: seconds(took)}
		if failed {
			w.Failed = 1
		}
		if again {
			w.Again = 1
		}
		free[i] += took
		cpu[i] += took * 0.97
		add(free[i], w)
		free[i] += 0.004
	}
	next := func() (i int) {
		for w, s := range free {
			if i == 0 || s < free[i] || s == free[i] && w < i {
				i = w
			}
		}
		return i
	}
	for generation := range 22 {
		call++
		add(now, event.CallBegan{Pool: pool, Call: call, Func: "evaluate", Tasks: 96})
		for i := range free {
			free[i] = max(free[i], now)
		}
		done, failed, retried := 0, 0, 0
		for index = range 96 {
			i := next()
			took := base[i] * (0.25 + r.ExpFloat64()*0.16) * (1 + float64(generation)*0.035)
			switch x := r.Float64(); {
			case x < 0.006:
				task("evaluate", call, i, index, took*0.6, 1, false, true, "simulation diverged: reward is NaN at step 412")
				retried++
				task("evaluate", call, next(), index, took, 2, false, false, "")
				done++
			case x < 0.009:
				task("evaluate", call, i, index, took*0.5, 3, true, false, "simulation diverged: reward is NaN at step 37")
				failed++
			default:
				task("evaluate", call, i, index, took, 1, false, false, "")
				done++
			}
			if generation == 11 && index == 40 {
				s := free[5]
				delete(free, 5)
				lostAt = s
				add(s, event.WorkerEnded{Pool: pool, Worker: name(5), Lost: true, Ready: true, Reason: "OOMKilled: it used more than its memory, 512 MiB", Ran: "evaluate of input 41, for 0.9 s", Tasks: "That task and 3 others run on other workers."})
				add(s+0.1, event.ProcessEnded{Name: name(5), Role: "worker", How: "exit code 137", Words: []string{"step 8800: replay buffer holds 1048576 transitions", "step 8900: replay buffer holds 1179648 transitions", "fatal: cannot allocate 268435456-byte block"}})
				add(s+0.2, event.Log{Level: "WARN", Message: "a worker was lost", Attrs: []string{"worker=" + name(5), "reason=OOMKilled", "tasks=4"}})
				up(9, s+0.3, 3.1)
				free[9] = ready[9]
			}
		}
		for _, s := range free {
			now = max(now, s)
		}
		add(now, event.CallEnded{Pool: pool, Call: call, Func: "evaluate", Tasks: 96, Done: done, Failed: failed, Retried: retried})
		call++
		add(now, event.CallBegan{Pool: pool, Call: call, Func: "recombine", Tasks: 8})
		began := now
		for k := range 8 {
			i := next()
			free[i] = max(free[i], began+0.02)
			task("recombine", call, i, k, 0.12+r.Float64()*0.1, 1, false, false, "")
			now = max(now, free[i])
		}
		add(now, event.CallEnded{Pool: pool, Call: call, Func: "recombine", Tasks: 8, Done: 8})
		if generation%5 == 4 {
			call++
			add(now, event.CallBegan{Pool: pool, Call: call, Func: "render", Tasks: 2})
			for k := range 2 {
				i := next()
				free[i] = max(free[i], now)
				task("render", call, i, k, 2.2+r.Float64(), 1, false, false, "")
			}
			add(now+3.2, event.CallEnded{Pool: pool, Call: call, Func: "render", Tasks: 2, Done: 2})
			add(now, event.Log{Level: "INFO", Message: "checkpoint written", Attrs: []string{fmt.Sprintf("generation=%d", generation+1), "file=walker.checkpoint"}})
		}
		now += 0.05
	}
	used := map[int]float64{}
	for s := 1.0; s < now; s += 2 {
		for i := 1; i <= 9; i++ {
			if s < ready[i] || i == 5 && s > lostAt {
				continue
			}
			used[i] += 2 * (0.86 + 0.1*r.Float64())
			mib := 150 + 60*r.Float64() + 14*float64(i)
			if i == 5 {
				mib += 270 * (s / lostAt) * (s / lostAt)
			}
			if i == 2 {
				mib += 140 * s / now
			}
			add(s, event.ProcessStatus{Name: name(i), Resident: int64(mib * (1 << 20)), Shared: 24 << 20, CPU: seconds(used[i]), Sent: int64(s * 90_000), Received: int64(s * 210_000)})
		}
		add(s, event.ProcessStatus{Name: "MainProcess", Resident: 88 << 20, CPU: seconds(s * 0.08)})
	}
	add(now, event.Objects{List: []event.Object{{ID: 1, Kind: "shared value", Users: 9, Length: -1, Served: 198, Bytes: 24 << 20}, {ID: 2, Kind: "queue", Users: 9, Length: 3, Waiting: 1, Served: 2156},
		{ID: 3, Kind: "dict", Users: 8, Length: 512, Served: 10412}, {ID: 4, Kind: "lock", Users: 8, Length: -1, Waiting: 2, Served: 811, Holder: name(3)}}})
	for i := 1; i <= 9; i++ {
		if i != 5 {
			add(now+0.05, event.WorkerEnded{Pool: pool, Worker: name(i), Ready: true, Reason: "the pool was closed"})
			add(now+0.1, event.ProcessEnded{Name: name(i), Role: "worker", OK: true})
		}
	}
	add(now+0.2, event.RunEnded{})
	slices.SortStableFunc(all, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	return info, all
}

// recorded returns a recorder that has got events.
func recorded(info report.Info, all iter.Seq[event.Event]) *report.Recorder {
	r := report.NewRecorder(info)
	for e := range all {
		r.Add(e)
	}
	return r
}
