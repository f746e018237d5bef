package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// A hurry is a round in which this process and another one do operations with short deadlines, while their homes are
// stopped now and then.
type hurry struct {
	s     *soak
	name  string
	kinds []string // of the processes whose death excuses a loss
	marks []int
	known ledger
	lost  error
	home  func() // ends the home, and so what hangs
}

// errand is the input of a user.
type errand struct {
	Who     int64
	Bound   time.Duration
	For     time.Duration
	Seed    uint64
	Shelf   *shelf
	House   *house
	Reports *fiber.SimpleQueue[report]
}

// userFunc does an errand. What does not end ends with its process.
var userFunc = fiber.Register("user", func(ctx context.Context, e errand) (struct{}, error) {
	w := newWatch(e.Bound, e.Who)
	last := time.Now().Add(e.For)
	hands, busy := e.hands(w, last)
	w.work(ctx, last, e.Seed, hands, busy)
	return struct{}{}, e.Reports.Put(context.WithoutCancel(ctx), w.close())
})

func (e errand) hands(w *watch, last time.Time) (hands, busy []hand) {
	if e.Shelf != nil {
		return e.Shelf.hands(w), e.Shelf.busyHands(w)
	}
	return e.House.hands(w, last), e.House.busyHands(w)
}

func (s *soak) hurry(name string, kinds ...string) *hurry {
	h := &hurry{s: s, name: name, kinds: kinds, known: ledger{}, home: func() {}}
	for _, kind := range kinds {
		h.marks = append(h.marks, s.killer.mark(kind))
	}
	return h
}

// watch returns this process's watch of the round.
func (h *hurry) watch() *watch {
	w := newWatch(h.s.bound, 0)
	w.say = func(fault string) { h.s.fault(h.name, fault) }
	return w
}

func (h *hurry) killed() bool {
	for i, kind := range h.kinds {
		if h.s.killer.since(kind, h.marks[i]) {
			return true
		}
	}
	return false
}

// excuse drops an error if a process was killed. Otherwise it is a fault.
func (h *hurry) excuse(err error) error {
	switch {
	case err == nil:
	case h.killed():
		h.s.workload(h.name).excused.Add(1)
	default:
		h.s.fault(h.name, fmt.Sprintf("no process was killed: %v", err))
	}
	h.s.did(h.name, 0)
	return nil
}

// run does the errand here and in a user. It returns false if the rest of the round makes no sense, and then ends the home.
func (h *hurry) run(ctx context.Context, w *watch, e errand, there errand, r *rand.Rand) bool {
	long := time.Second + time.Duration(r.Int64N(int64(3*time.Second)))
	last := time.Now().Add(long)
	reports, err := fiber.NewSimpleQueue[report]()
	if err != nil {
		h.lost = err
		return false
	}
	defer reports.Close()
	there.Who, there.Bound, there.For, there.Seed, there.Reports = 1, h.s.bound, long, r.Uint64(), reports
	user := fiber.NewProcess(userFunc, there, fiber.WithName(userKind))
	if h.lost = user.Start(ctx); h.lost != nil {
		h.home()
		return false
	}
	hands, busy := e.hands(w, last)
	wait := w.work(ctx, last, r.Uint64(), hands, busy)
	h.s.did(h.name, 0)
	if here := w.peek(); here.Lost != "" || len(here.Faults) > 0 {
		h.home()
		user.Kill()
	}
	wait()
	if h.lost = user.Join(ctx); h.lost == nil {
		var all []report
		if all, h.lost = rest(ctx, reports); len(all) != 1 && h.lost == nil {
			h.lost = fmt.Errorf("%d reports of a user", len(all))
		}
		for _, rep := range all {
			h.take(rep)
		}
	}
	here := w.peek()
	ok := h.lost == nil && here.Lost == "" && len(here.Faults) == 0
	if !ok {
		h.home()
	}
	return ok
}

// take takes a report.
func (h *hurry) take(rep report) {
	for _, fault := range rep.Faults {
		h.s.fault(h.name, fault)
	}
	if rep.Lost != "" {
		h.lost = errors.Join(h.lost, errors.New(rep.Lost))
	}
	h.known.add(rep.Ledger)
	h.s.addTallies(rep.Kinds)
	n := 0
	for _, t := range rep.Kinds {
		n += t.Ran
	}
	h.s.did(h.name, n)
}

// empty gets what is left in a queue, in a hurry at first, and closes it.
func (h *hurry) empty(ctx context.Context, w *watch, place string, q store, r *rand.Rand) {
	if h.lost != nil {
		return
	}
	known := ledger{}
	known.add(h.known)
	known.add(w.peek().Ledger)
	h.lost = h.s.empty(ctx, w, known[place], place, q, h.name, r)
}

// finally does an operation that must be possible in the end.
func (h *hurry) finally(ctx context.Context, w *watch, kind string, op func(ctx context.Context) error) {
	if h.lost != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.s.patience/2)
	defer cancel()
	ctx = context.WithValue(ctx, handKey{}, "who is last")
	out, err := w.do(ctx, kind, op)
	switch {
	case out == done || errors.Is(err, fiber.ErrAbandoned) && (h.killed() || kind != join): // Release may have returned early
	case out != lost:
		w.wrong("%s is not possible any more, %v after all others have ended: %v", kind, h.s.patience/2, err)
	default:
		h.lost = fmt.Errorf("%s: %w", kind, err)
	}
}

// settle ends the round, and judges it.
func (h *hurry) settle(w *watch) error {
	whole := h.lost == nil
	here := w.close()
	here.Faults = nil // which were told
	h.take(here)
	if h.lost != nil {
		return h.excuse(h.lost)
	}
	for _, place := range slices.Sorted(maps.Keys(h.known)) {
		if place == calls || !whole {
			continue
		}
		for _, fault := range h.known[place].faults(place, h.killed()) {
			h.s.fault(h.name, fault)
		}
	}
	return nil
}

// faults are what was wrong so far. They do not end the run, so that one run finds many.
type faults struct {
	lock  sync.Mutex
	all   map[string]int // by workload and beginning
	kinds map[string]tally
}

// fault records what was wrong, and says so unless it has said much of this kind.
func (s *soak) fault(name, what string) {
	key := numbers.ReplaceAllString(name+": "+what, "N")
	key = key[:min(100, len(key))]
	s.faults.lock.Lock()
	defer s.faults.lock.Unlock()
	if s.faults.all[key]++; s.faults.all[key] <= 3 {
		fmt.Printf("FAULT after %v: %s: %s; lately stopped: %v\n", time.Since(s.begun).Round(time.Second), name, what, s.killer.lately())
	}
}

// numbers are what faults of the same kind differ in.
var numbers = regexp.MustCompile(`[0-9]+`)

func (s *soak) addTallies(kinds map[string]tally) {
	s.faults.lock.Lock()
	defer s.faults.lock.Unlock()
	addTallies(s.faults.kinds, kinds)
}

// err returns the error that a run with faults ends with.
func (f *faults) err() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		errs = append(errs, fmt.Errorf("%d times: %s", f.all[key], key))
	}
	return errors.Join(errs...)
}
