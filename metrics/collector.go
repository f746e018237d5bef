package metrics

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fiber-go/fiber/event"
)

// What a collector keeps at most, so that there is a bound to what Prometheus stores.
const (
	maxFuncs   = 500
	maxPools   = 100
	maxReasons = 20      // of processes that wait, and of losses of a pool
	maxCalls   = 100_000 // whose tasks are counted before the call ends
	maxText    = 120     // bytes of a label
	others     = "others"
)

// collector counts what happens in a run.
type collector struct {
	began            time.Time
	program, backend string

	mu        sync.Mutex
	funcs     map[string]*function
	pools     map[string]*pool
	roles     map[string]*role
	processes map[string]*process
	calls     int              // that go on, in all processes
	served    map[string]int64 // by the kind of objects that are gone
	logged    map[string]int   // by level
	missed    int
}

// function has the figures of a function's calls.
type function struct {
	calls, callsFailed, open    int
	done, failed, retried, kept int
	bytes                       int64
	took                        histogram
}

// pool has the figures of the pools of a name.
type pool struct {
	failed int            // starts
	lost   map[string]int // by reason
	took   histogram      // starts
}

// role has the figures of the processes of a role.
type role struct {
	started, failed int
	ended           event.ProcessStatus // the sum of those that have ended
}

// process has what is in a process, from the first that is heard of it until its end.
type process struct {
	parent  string
	role    string // "" before it is known to be up
	waits   string // why its start has to wait
	last    event.ProcessStatus
	calls   map[uint64]*call  // that go on
	workers map[string]worker // of its pools
	objects []event.Object
}

// call counts the tasks of a call that goes on.
type call struct {
	fn                                 *function
	tasks, kept, done, failed, retried int
}

// worker is one of a pool.
type worker struct {
	pool  string
	ready bool
}

func newCollector(program, backend string) *collector {
	return &collector{began: time.Now(), program: program, backend: backend,
		funcs: map[string]*function{}, pools: map[string]*pool{}, roles: map[string]*role{}, processes: map[string]*process{},
		served: map[string]int64{}, logged: map[string]int{}}
}

// entry returns what a map has for a label, or for all those for which there is no room.
func entry[T any](all map[string]*T, label string, most int) (x *T, as string) {
	label = clip(label)
	if all[label] == nil && len(all) >= most {
		label = others
	}
	if all[label] == nil {
		all[label] = new(T)
	}
	return all[label], label
}

// clip returns a label of at most maxText bytes.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

func (c *collector) function(name string) *function {
	f, _ := entry(c.funcs, name, maxFuncs)
	return f
}

// pool returns what is counted of a pool, and its label. The processes of fiber.Go, which are their pools' only workers, have one together.
func (c *collector) pool(name, worker string) (p *pool, label string) {
	if name == worker {
		name = "fiber.Go"
	}
	return entry(c.pools, name, maxPools)
}

func (c *collector) role(name string) *role {
	r, _ := entry(c.roles, name, maxPools)
	return r
}

// process returns what is known of a process. One of which nothing is known was not started by another one of the run: it is the main one,
// or the one that the collector is in.
func (c *collector) process(name string) *process {
	p := c.processes[name]
	if p == nil {
		p = &process{calls: map[uint64]*call{}, workers: map[string]worker{}}
		if name == "MainProcess" {
			p.role = "main"
		}
		c.processes[name] = p
	}
	return p
}

// add counts what has happened.
func (c *collector) add(e event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := c.process(e.Process)
	switch w := e.What.(type) {
	case event.CallBegan:
		if c.calls < maxCalls { // the end of others has their counts
			c.calls++
			f := c.function(w.Func)
			f.open, f.kept = f.open+1, f.kept+w.Kept
			here.calls[w.Call] = &call{fn: f, tasks: w.Tasks, kept: w.Kept}
		}
	case event.CallEnded:
		f := c.function(w.Func)
		if known := here.calls[w.Call]; known != nil {
			c.over(here, w.Call)
			w.Kept, w.Done, w.Failed, w.Retried = 0, max(w.Done-known.done, 0), max(w.Failed-known.failed, 0), max(w.Retried-known.retried, 0)
		}
		if f.calls++; w.Err != "" {
			f.callsFailed++
		}
		f.kept += w.Kept
		f.add(w.Done, w.Failed, w.Retried)
	case event.Tasks:
		c.tasks(here.calls[w.Call], w)
	case event.WorkerStarting:
		_, name := c.pool(w.Pool, w.Worker)
		here.workers[w.Worker] = worker{pool: name}
	case event.WorkerReady:
		p, name := c.pool(w.Pool, w.Worker)
		here.workers[w.Worker] = worker{name, true}
		p.took.observe(w.Took, 1)
	case event.WorkerEnded:
		delete(here.workers, w.Worker)
		c.gone(w.Worker)
		c.workerEnded(w)
	case event.ProcessStarted:
		c.role(w.Role).started++
		p := c.process(w.Name)
		p.parent, p.role, p.waits = e.Process, w.Role, ""
	case event.ProcessStatus:
		if p := c.processes[w.Name]; p != nil { // else it has ended
			p.last = w
		}
	case event.ProcessEnded:
		r := c.role(w.Role)
		if !w.OK {
			r.failed++
		}
		delete(here.workers, w.Name)
		c.gone(w.Name)
	case event.Waiting:
		if p := c.processes[w.Name]; p != nil || w.Reason != "" {
			p = c.process(w.Name)
			p.parent, p.waits = e.Process, clip(w.Reason)
		}
	case event.Objects:
		if len(w.List) > 0 || w.More == 0 { // else there are too many to list any
			c.objects(here, w.List)
		}
	case event.Log:
		c.logged[clip(w.Level)]++
	case event.Missed:
		c.missed += w.Events
	}
}

func (f *function) add(done, failed, retried int) {
	f.done, f.failed, f.retried = f.done+done, f.failed+failed, f.retried+retried
}

// over removes a call that has ended.
func (c *collector) over(p *process, number uint64) {
	c.calls--
	p.calls[number].fn.open--
	delete(p.calls, number)
}

// tasks counts tasks that have ended. Of several, the longest time is known, and that of the others together.
func (c *collector) tasks(known *call, w event.Tasks) {
	f, done := c.function(w.Func), w.Count-w.Failed-w.Again
	if known != nil { // the counts of a call that has ended are complete
		known.done, known.failed, known.retried = known.done+done, known.failed+w.Failed, known.retried+w.Again
		f.add(done, w.Failed, w.Again)
	}
	f.bytes += int64(w.Bytes)
	if w.Worker == "" || w.Took == 0 && w.Failed == w.Count { // it never ran, or was lost with its worker
		return
	}
	longest := w.Longest
	if w.Count == 1 {
		longest = w.Took
	} else {
		f.took.observe((w.Took-longest)/time.Duration(w.Count-1), w.Count-1)
	}
	f.took.observe(longest, 1)
}

func (c *collector) workerEnded(w event.WorkerEnded) {
	p, _ := c.pool(w.Pool, w.Worker)
	switch {
	case w.Lost:
		if p.lost == nil {
			p.lost = map[string]int{}
		}
		p.lost[kindOfLoss(p.lost, w.Reason)]++
	case !w.Ready && w.Reason != "":
		p.failed++
	}
}

var (
	setting = regexp.MustCompile(`\(([a-z]+_[a-z]+)\)`)
	status  = regexp.MustCompile(`^(exit code \d+|signal: [a-zA-Z0-9 ]+)`)
)

// kindOfLoss returns the setting whose time was over, OOMKilled, or else how the process ended.
func kindOfLoss(known map[string]int, reason string) string {
	kind := others
	if s := setting.FindStringSubmatch(reason); s != nil {
		kind = s[1]
	} else if strings.Contains(reason, "OOMKilled") {
		kind = "OOMKilled"
	} else if s := status.FindString(reason); s != "" {
		kind = s
	}
	if _, is := known[kind]; !is && len(known) >= maxReasons {
		return others
	}
	return kind
}

// gone removes a process, what was in it, and the processes below it: their end is not told.
func (c *collector) gone(name string) {
	p := c.processes[name]
	if p == nil {
		return
	}
	delete(c.processes, name)
	if p.role != "" {
		r := c.role(p.role)
		r.ended.CPU, r.ended.Sent, r.ended.Received = r.ended.CPU+p.last.CPU, r.ended.Sent+p.last.Sent, r.ended.Received+p.last.Received
	}
	for number := range p.calls {
		c.over(p, number)
	}
	c.objects(p, nil)
	for below, of := range c.processes {
		if of.parent == name {
			c.gone(below)
		}
	}
}

// objects notes which objects a process has now.
func (c *collector) objects(p *process, list []event.Object) {
	list = slices.Clone(list)
	now := map[uint64]bool{}
	for i, o := range list {
		if kind, _, of := strings.Cut(o.Kind, " of "); of { // a process
			list[i].Kind = kind + " of another process"
		}
		now[o.ID] = true
	}
	for _, o := range p.objects {
		if !now[o.ID] {
			c.served[o.Kind] += o.Served
		}
	}
	p.objects = list
}

var described []*prometheus.Desc

// desc describes a metric.
func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("fiber_"+name, help, labels, nil)
	described = append(described, d)
	return d
}

// What a collector has. docs/metrics.md lists them, too.
var (
	runInfo = desc("run_info", "The run: always 1.", "program", "backend")

	callsTotal   = desc("calls_total", "Calls of Apply, Map, IMap and their variants that have ended.", "func", "outcome")
	callsOpen    = desc("calls_open", "Calls that go on.", "func")
	tasksTotal   = desc("tasks_total", "Tasks that have returned, or have failed and are not tried again.", "func", "outcome")
	tasksRetried = desc("task_retries_total", "How often tasks were started again.", "func")
	tasksKept    = desc("tasks_kept_total", "Tasks whose results a checkpoint had.", "func")
	tasksOpen    = desc("tasks_open", "Tasks of calls that go on which have yet to end, as far as their number is known.", "func")
	taskTime     = desc("task_duration_seconds", "How long tasks ran. Of those below a millisecond, several may count with their mean.", "func")
	resultBytes  = desc("result_bytes_total", "Bytes of results, encoded.", "func")

	workersNow   = desc("workers", "Workers of pools.", "pool", "state")
	workerStart  = desc("worker_start_duration_seconds", "From the start of a worker until it took tasks.", "pool")
	workersLost  = desc("workers_lost_total", "Workers that have ended without being told to.", "pool", "reason")
	startsFailed = desc("worker_start_failures_total", "Workers that could not be started.", "pool")

	processesNow     = desc("processes", "Processes that are up.", "role")
	processStarts    = desc("process_starts_total", "Processes that were started.", "role")
	processFailures  = desc("process_failures_total", "Processes that have not ended as they should.", "role")
	processesWaiting = desc("processes_waiting", "Processes whose start has to wait.", "reason")
	memory           = desc("processes_resident_memory_bytes", "Memory that processes have for themselves.", "role")
	shared           = desc("processes_shared_memory_bytes", "Shared values that processes see or have fetched.", "role")
	processor        = desc("processes_cpu_seconds_total", "Processor time of processes.", "role")
	sent             = desc("processes_sent_bytes_total", "Bytes sent to processes.", "role")
	received         = desc("processes_received_bytes_total", "Bytes received from processes.", "role")

	objectsNow     = desc("objects", "Shared objects.", "kind")
	objectItems    = desc("object_items", "What is in queues, pipes, dicts and lists.", "kind")
	objectWaiting  = desc("object_requests_waiting", "Requests that wait at shared objects.", "kind")
	objectRequests = desc("object_requests_total", "Requests that shared objects have served.", "kind")
	objectBytes    = desc("object_bytes", "Bytes of shared values.", "kind")

	messages     = desc("log_messages_total", "Messages in Fiber's own log.", "level")
	eventsMissed = desc("events_missed_total", "Events that came too fast to be seen: what only they say is not counted.")
)

// Describe is for a registry.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect is for a registry.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.collect() {
		ch <- m
	}
}

// figures are those of a scrape.
type figures []prometheus.Metric

func (all *figures) gauge(d *prometheus.Desc, value float64, labels ...string) {
	*all = append(*all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

func (all *figures) counter(d *prometheus.Desc, value float64, labels ...string) {
	*all = append(*all, prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...))
}

func (c *collector) collect() (all figures) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program != "" {
		all.gauge(runInfo, 1, clip(c.program), clip(c.backend))
	}
	open := map[*function]int{}
	for _, p := range c.processes {
		for _, one := range p.calls {
			open[one.fn] += max(one.tasks-one.kept-one.done-one.failed, 0)
		}
	}
	for name, f := range c.funcs {
		all.counter(callsTotal, float64(f.calls-f.callsFailed), name, "done")
		all.counter(callsTotal, float64(f.callsFailed), name, "failed")
		all.gauge(callsOpen, float64(f.open), name)
		all.counter(tasksTotal, float64(f.done), name, "done")
		all.counter(tasksTotal, float64(f.failed), name, "failed")
		all.counter(tasksRetried, float64(f.retried), name)
		all.counter(tasksKept, float64(f.kept), name)
		all.gauge(tasksOpen, float64(open[f]), name)
		all.counter(resultBytes, float64(f.bytes), name)
		all = append(all, f.took.metric(taskTime, c.began, name))
	}
	c.collectPools(&all)
	c.collectProcesses(&all)
	c.collectObjects(&all)
	for level, n := range c.logged {
		all.counter(messages, float64(n), level)
	}
	all.counter(eventsMissed, float64(c.missed))
	return all
}

func (c *collector) collectPools(all *figures) {
	now := map[worker]int{}
	for _, p := range c.processes {
		for _, w := range p.workers {
			now[w]++
		}
	}
	for name, p := range c.pools {
		all.gauge(workersNow, float64(now[worker{name, false}]), name, "starting")
		all.gauge(workersNow, float64(now[worker{name, true}]), name, "ready")
		for reason, n := range p.lost {
			all.counter(workersLost, float64(n), name, reason)
		}
		all.counter(startsFailed, float64(p.failed), name)
		*all = append(*all, p.took.metric(workerStart, c.began, name))
	}
}

func (c *collector) collectProcesses(all *figures) {
	type sum struct {
		up int
		event.ProcessStatus
	}
	now := map[string]sum{}
	for name, r := range c.roles {
		now[name] = sum{0, r.ended}
	}
	waiting := map[string]int{}
	for _, p := range c.processes {
		if p.waits != "" {
			waiting[p.waits]++
		}
		if p.role == "" {
			continue
		}
		s := now[p.role]
		s.up, s.Resident, s.Shared, s.CPU, s.Sent, s.Received = s.up+1, s.Resident+p.last.Resident, s.Shared+p.last.Shared, s.CPU+p.last.CPU,
			s.Sent+p.last.Sent, s.Received+p.last.Received
		now[p.role] = s
	}
	for name, s := range now {
		if r := c.roles[name]; r != nil { // the main process was started by others
			all.counter(processStarts, float64(r.started), name)
			all.counter(processFailures, float64(r.failed), name)
			all.counter(sent, float64(s.Sent), name)
			all.counter(received, float64(s.Received), name)
		}
		all.gauge(processesNow, float64(s.up), name)
		all.gauge(memory, float64(s.Resident), name)
		all.gauge(shared, float64(s.Shared), name)
		all.counter(processor, s.CPU.Seconds(), name)
	}
	most := slices.SortedFunc(maps.Keys(waiting), func(a, b string) int { return cmp.Or(waiting[b]-waiting[a], strings.Compare(a, b)) })
	for i, reason := range most {
		if i >= maxReasons {
			waiting[others] += waiting[reason]
			delete(waiting, reason)
		}
	}
	for reason, n := range waiting {
		all.gauge(processesWaiting, float64(n), reason)
	}
}

func (c *collector) collectObjects(all *figures) {
	type sum struct {
		objects, items, waiting int
		served, bytes           int64
	}
	now := map[string]sum{}
	for kind, n := range c.served {
		now[kind] = sum{served: n}
	}
	for _, p := range c.processes {
		for _, o := range p.objects {
			s := now[o.Kind]
			now[o.Kind] = sum{s.objects + 1, s.items + max(o.Length, 0), s.waiting + o.Waiting, s.served + o.Served, s.bytes + o.Bytes}
		}
	}
	for kind, s := range now {
		all.gauge(objectsNow, float64(s.objects), kind)
		all.gauge(objectItems, float64(s.items), kind)
		all.gauge(objectWaiting, float64(s.waiting), kind)
		all.counter(objectRequests, float64(s.served), kind)
		all.gauge(objectBytes, float64(s.bytes), kind)
	}
}
