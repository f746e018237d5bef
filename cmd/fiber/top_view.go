package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/runs"
)

const (
	// paceTime is the time that rates are of.
	paceTime = 15 * time.Second
	// Of these there are so many lines at most.
	callsShown, poolsShown, newsShown = 12, 8, 4
)

// view makes the lines that fiber top shows of a program.
type view struct {
	name  string
	begun time.Time     // when it was asked first
	heard time.Time     // when it answered last
	why   string        // the last question was in vain; "" if it was not
	past  []runs.Status // answers of paceTime, the newest last
}

// add adds an answer.
func (v *view) add(s runs.Status) {
	v.heard, v.why = time.Now(), ""
	v.past = append(v.past, s)
	for len(v.past) > 2 && s.At.Sub(v.past[0].At) > paceTime {
		v.past = v.past[1:]
	}
}

// measured reports whether it is known what processes use.
func (v *view) measured() bool {
	return slices.ContainsFunc(v.past[len(v.past)-1].Processes, func(p runs.Process) bool { return p.CPU >= 0 })
}

// lines returns what fits a terminal. A width and height of 0 are those of a file.
func (v *view) lines(width, height int) (all []string) {
	if v.begun.IsZero() {
		v.begun = time.Now()
	}
	if len(v.past) == 0 {
		return fit([]string{v.name + "  " + v.silence(v.begun)}, width)
	}
	now := v.past[len(v.past)-1]
	all = append(all, fmt.Sprintf("%s  %s%s · up %v · %s · %.1f CPUs · %s", v.name, v.silence(v.heard), now.Backend, now.Up.Round(time.Second),
		count(now.Running, "process", "processes"), now.CPU, size(now.Resident)))
	all = append(all, v.calls(now)...)
	all = append(all, v.pools(now)...)
	var last []string
	for _, n := range now.News[max(0, len(now.News)-newsShown):] {
		last = append(last, n.At.Format(time.TimeOnly)+"  "+n.Text)
	}
	if len(last) > 0 {
		last = append([]string{""}, last...)
	}
	rows := v.processes(now)
	if height > 0 {
		room := max(0, height-len(all)-len(last))
		rows = rows[:min(len(rows), room)]
	}
	all = append(append(all, rows...), last...)
	if height > 0 {
		all = all[:min(len(all), height)]
	}
	return fit(all, width)
}

// silence says that there was no answer since then, if that is long, and why.
func (v *view) silence(t time.Time) string {
	d := time.Since(t)
	if d < silent/2 {
		return ""
	}
	text := fmt.Sprintf("no answer for %v · ", d.Round(time.Second))
	if v.why != "" {
		text += v.why + " · "
	}
	return text
}

// fit cuts lines to a width.
func fit(lines []string, width int) []string {
	for i, line := range lines {
		if lines[i] = names.Printable(line, ' '); width > 0 {
			lines[i] = runewidth.Truncate(lines[i], width, "…")
		}
	}
	return lines
}

// table returns a heading and rows under it, in columns that are as wide as what is in them, after an empty line.
func table(heading string, rows []string) []string {
	if len(rows) == 0 {
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, heading)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	w.Flush()
	return append([]string{""}, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
}

// row joins the cells of a row.
func row(cells ...any) string {
	var texts []string
	for _, c := range cells {
		texts = append(texts, names.Printable(fmt.Sprint(c), ' '))
	}
	return strings.Join(texts, "\t")
}

// rows returns a row for each of the first most things of a list, and says how many of all there are besides.
func rows[T any](list []T, most, all int, of func(T) string) (rows []string) {
	list = list[:min(len(list), most)]
	for _, x := range list {
		rows = append(rows, of(x))
	}
	if more := all - len(list); more > 0 {
		rows = append(rows, fmt.Sprintf("%d more", more))
	}
	return rows
}

// rate returns how fast a count has grown since what it is of was seen first in the past, NaN if that is not known.
func (v *view) rate(now int, at func(runs.Status) int, count func(s runs.Status, at int) int) float64 {
	last := v.past[len(v.past)-1]
	for _, s := range v.past[:len(v.past)-1] {
		if n := at(s); n >= 0 {
			return float64(now-count(s, n)) / last.At.Sub(s.At).Seconds()
		}
	}
	return math.NaN()
}

func (v *view) calls(now runs.Status) []string {
	return table("CALL\tPOOL\tDONE\tFAILED\tRETRIED\tRATE\tLEFT", rows(now.Calls, callsShown, now.AllCalls, func(c runs.Call) string {
		done, left := fmt.Sprint(c.Done), "-"
		rate := v.rate(c.Done, func(s runs.Status) int {
			return slices.IndexFunc(s.Calls, func(of runs.Call) bool { return of.Number == c.Number })
		}, func(s runs.Status, n int) int { return s.Calls[n].Done })
		if c.Tasks >= 0 {
			done = fmt.Sprintf("%d/%d (%d%%)", c.Done, c.Tasks, 100*c.Done/max(1, c.Tasks))
			if rate > 0 {
				left = (time.Duration(float64(c.Tasks-c.Done) / rate * float64(time.Second))).Round(time.Second).String()
			}
		}
		return row(c.Func, c.Pool, done, c.Failed, c.Retried, pace(rate), left)
	}))
}

func (v *view) pools(now runs.Status) []string {
	all := table("POOL\tREADY\tIDLE\tSTARTING\tLOST\tQUEUED\tHELD\tDONE\tFAILED\tRETRIED\tRATE", rows(now.Pools, poolsShown, now.AllPools, func(p runs.Pool) string {
		rate := v.rate(p.Done, func(s runs.Status) int {
			return slices.IndexFunc(s.Pools, func(of runs.Pool) bool { return of.Number == p.Number })
		}, func(s runs.Status, n int) int { return s.Pools[n].Done })
		return row(p.Name, p.Ready, p.Idle, p.Starting, p.Lost, p.Queued, p.Held, p.Done, p.Failed, p.Retried, pace(rate))
	}))
	for _, p := range now.Pools[:min(len(now.Pools), poolsShown)] {
		for _, why := range p.Waits {
			all = append(all, p.Name+" waits: "+why)
		}
	}
	return all
}

func (v *view) processes(now runs.Status) []string {
	return table("PROCESS\tSTATE\tCPU\tMEMORY\tSHARED\tTASKS\tRUNS", rows(now.Processes, len(now.Processes), now.Running, func(p runs.Process) string {
		processor, tasks := "-", "-"
		if p.CPU >= 0 {
			processor = fmt.Sprintf("%.0f%%", 100*p.CPU)
		}
		if p.State != "" {
			tasks = fmt.Sprint(p.Done)
		}
		return row(p.Name, cmp.Or(p.State, "-"), processor, size(p.Resident), size(p.Shared), tasks, cmp.Or(p.Runs, "-"))
	}))
}

func pace(rate float64) string {
	switch {
	case math.IsNaN(rate):
		return "-"
	case rate < 10:
		return fmt.Sprintf("%.1f/s", rate)
	}
	return fmt.Sprintf("%.0f/s", rate)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// size is a number of bytes, which is not known if it is 0.
func size(n int64) string {
	if n == 0 {
		return "-"
	}
	return submit.Amount(n)
}
