package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

// floors are by how much figures may grow as mere noise. The last is for containers, pods and the like.
var floors = map[string]float64{"heap MiB": 2, "root MiB": 5, "MiB of a child": 2, "goroutines": 20, "descriptors": 10, "threads": 6,
	"processes": 4, "": 3}

// low is the quantile by which this process's memory is judged; other figures are judged by their median. Values of 4 MiB are
// under way in two of three looks, up to six of them, as heap profiles show (-profiles): in messages that were read, or in
// copies of those whose senders have left. Where the median is depends on them. What leaks raises the low looks as well.
var low = map[string]float64{"heap MiB": 0.1, "root MiB": 0.1}

const mib = 1 << 20

// look takes the figures and watches for hangs until stop is closed. It prints the figures every minute.
func (s *soak) look(ctx context.Context, stop <-chan struct{}) {
	said := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-time.After(min(max(s.duration/60, time.Second/2), 10*time.Second)):
		}
		s.watch()
		now := s.take(ctx)
		if err := s.profile(); err != nil {
			s.fail(err)
		}
		warm := time.Since(s.begun) < s.duration // figures grow until each workload has done two rounds, and fall when they end
		for _, w := range s.work {
			warm = warm && w.rounds.Load() > 1
		}
		for name, x := range now {
			if warm {
				s.series[name] = append(s.series[name], x)
			}
		}
		if time.Since(said) < time.Minute {
			continue
		}
		said = time.Now()
		line := time.Since(s.begun).Round(time.Second).String() + ":"
		for _, name := range slices.Sorted(maps.Keys(now)) {
			line += fmt.Sprintf(" %s %.4g,", name, now[name])
		}
		line += " " + s.killer.String() + " done:"
		for _, w := range s.work {
			line += fmt.Sprintf(" %s %d,", w.name, w.done.Load())
		}
		fmt.Println(strings.TrimSuffix(line, ","))
	}
}

// take returns the present figures. Memory does not include the pages of the executable, which all processes share.
func (s *soak) take(ctx context.Context) map[string]float64 {
	debug.FreeOSMemory()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	files, _ := os.ReadDir("/proc/self/fd")
	children, total := descendants(), 0.0
	for _, pid := range children {
		total += status(pid, "RssAnon") / 1024
	}
	now := map[string]float64{"heap MiB": float64(mem.HeapAlloc) / mib, "root MiB": status(os.Getpid(), "RssAnon") / 1024,
		"goroutines": float64(runtime.NumGoroutine()), "descriptors": float64(len(files)), "threads": status(os.Getpid(), "Threads"),
		"processes": float64(len(children)), "MiB of a child": total / float64(max(1, len(children)))}
	left, _ := s.ground.left(ctx)
	for name, things := range left {
		now[name] = float64(len(things))
	}
	if _, ok := now["pods"]; ok { // a process on a node that is cut off outlives its pod
		delete(now, "processes")
	}
	return now
}

// profile writes a heap profile, if there is a folder for them. It has what was in use at the collection before it.
func (s *soak) profile() error {
	if s.profiles == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(s.profiles, fmt.Sprintf("heap.%06.0f", time.Since(s.begun).Seconds())))
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// report prints what was done.
func (s *soak) report() {
	fmt.Printf("%v, %s\n", time.Since(s.begun).Round(time.Second), s.killer)
	for _, w := range s.work {
		fmt.Printf("%-8s %8d done in %d rounds, %d cut short by a kill\n", w.name, w.done.Load(), w.rounds.Load(), w.excused.Load())
	}
	printTallies(s.faults.kinds)
	stats := s.pool.Stats()
	fmt.Printf("pool: %d workers lost, %d tasks retried\n", stats.WorkersLost, stats.Retried)
}

// settled is the shortest run whose figures are judged. In a shorter one, what the current work holds (an endless IMap
// reads some MiB ahead) comes and goes too seldom for a median.
const settled = 5 * time.Minute

// trend reports whether a figure has grown.
func (s *soak) trend(name string) (first, last float64, grown bool) {
	return trend(s.series[name], cmp.Or(low[name], 0.5), cmp.Or(floors[name], floors[""]))
}

// judge returns an error if a figure has grown.
func (s *soak) judge() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		first, last, grown := s.trend(name)
		fmt.Printf("%-14s %8.2f in the first third, %8.2f in the last, of %d looks\n", name, first, last, len(s.series[name]))
		if grown && s.duration >= settled {
			errs = append(errs, fmt.Errorf("%s: from %.2f to %.2f", name, first, last))
		}
	}
	return errors.Join(errs...)
}

// descendants returns this run's other processes on this machine, including those in containers and those whose parent is
// gone.
func descendants() (pids []int) {
	mark := []byte(markKey + "=" + os.Getenv(markKey) + "\x00")
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() && bytes.Contains(procfile(pid, "environ"), mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func procfile(pid int, name string) []byte {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return b
}

// status returns a number of /proc/PID/status, 0 if there is none.
func status(pid int, name string) float64 {
	_, rest, _ := strings.Cut(string(procfile(pid, "status")), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 64)
	return n
}
