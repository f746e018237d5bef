// Package observe hands what happens in a process to those who watch, without making anybody wait.
package observe

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/self"
)

const (
	// room is how many events wait for a watcher at most.
	room = 1 << 14
	// gather is how long a watcher that has seen everything waits for more events to come together: to be woken for each
	// would cost more than a short task.
	gather = 50 * time.Millisecond
)

var calls atomic.Uint64

// NextCall returns a number for a call.
func NextCall() uint64 { return calls.Add(1) }

// Hub has the events of a process. All methods may be called concurrently; those of a nil Hub do nothing.
type Hub struct {
	name     string
	switched func(on bool)

	on        atomic.Bool   // somebody watches
	closed    chan struct{} // closed by Close
	switching sync.Mutex    // held while switched is called
	sampling  sync.Mutex    // held while samples are taken

	mu       sync.Mutex
	over     bool
	watchers []*Watcher
	one      [1]event.Event // for told
	samples  []func()
	round    int         // how often the first watcher has come
	timer    *time.Timer // runs while somebody watches
}

// SampleInterval is how often samples are taken.
const SampleInterval = 2 * time.Second

// Sample has take called when somebody begins to watch, and every SampleInterval while somebody does.
func (h *Hub) Sample(take func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = append(h.samples, take)
}

// sample takes all samples, for those who watch since that round began.
func (h *Hub) sample(round int) {
	h.mu.Lock()
	samples := h.samples
	h.mu.Unlock()
	h.sampling.Lock()
	defer h.sampling.Unlock()
	for _, take := range samples {
		take()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil && h.round == round {
		h.timer.Reset(SampleInterval)
	}
}

// Current returns the hub of this process. The root package sets it.
var Current func() (*Hub, error)

// New returns the hub of the process of that name. It calls switched, unless that is nil, when the first watcher has come and when
// the last one has gone.
func New(name string, switched func(on bool)) *Hub {
	return &Hub{name: name, switched: switched, closed: make(chan struct{})}
}

// On reports whether somebody watches. What only watchers need can be left out otherwise.
func (h *Hub) On() bool { return h != nil && h.on.Load() }

// IfOn calls do if somebody watches. What switched does comes before or after that.
func (h *Hub) IfOn(do func()) {
	h.switching.Lock()
	defer h.switching.Unlock()
	if h.On() {
		do()
	}
}

// Tell says what has happened now.
func (h *Hub) Tell(what event.What) {
	if !h.On() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told(what) // the times of a process are in their order
}

// Pass hands over events of other processes.
func (h *Hub) Pass(events []event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(events)
}

// told puts what has happened in this process. The lock is held.
func (h *Hub) told(what event.What) {
	h.one[0] = event.Event{Time: time.Now(), Process: h.name, What: what}
	h.put(h.one[:])
	h.one[0] = event.Event{}
}

func (h *Hub) put(events []event.Event) {
	for _, w := range h.watchers {
		w.put(events)
	}
}

// Watch returns a Watcher of the events from now on that pass the filter, all if that is nil. After Close there are none.
func (h *Hub) Watch(wants func(*event.Event) bool) *Watcher {
	w := &Watcher{hub: h, wants: wants, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	h.change(func() {
		if w.over = h.over; !w.over {
			h.watchers = append(h.watchers, w)
		}
	})
	return w
}

// change changes the watchers.
func (h *Hub) change(how func()) {
	h.switching.Lock()
	defer h.switching.Unlock()
	h.mu.Lock()
	was := len(h.watchers) > 0
	how()
	on := len(h.watchers) > 0
	h.on.Store(on)
	switch {
	case on && h.timer == nil:
		h.round++
		round := h.round
		h.timer = self.AfterFunc(0, func() { h.sample(round) })
	case !on && h.timer != nil:
		h.timer.Stop()
		h.timer = nil
	}
	h.mu.Unlock()
	if on != was && h.switched != nil {
		h.switched(on)
	}
}

// Close ends what watchers get, after a last event unless that is nil, and waits for them to stop watching, until ctx ends.
func (h *Hub) Close(ctx context.Context, last event.What) {
	h.mu.Lock()
	if last != nil && !h.over {
		h.told(last)
	}
	if !h.over {
		h.over = true
		close(h.closed)
	}
	watchers := slices.Clone(h.watchers)
	for _, w := range watchers {
		w.over = true
		w.signal()
	}
	h.mu.Unlock()
	for _, w := range watchers {
		select {
		case <-w.gone:
		case <-ctx.Done():
			return
		}
	}
}

// Watcher gets the events of a hub. One goroutine at a time calls Next.
type Watcher struct {
	hub   *Hub
	wants func(*event.Event) bool
	wake  chan struct{}
	gone  chan struct{} // closed by Stop

	// The hub's lock guards these.
	events []event.Event
	spare  []event.Event // what Next returned last
	missed event.Missed
	over   bool // no more events come
}

// put adds events. The hub's lock is held.
func (w *Watcher) put(events []event.Event) {
	for i := range events {
		e := &events[i]
		_, last := e.What.(event.RunEnded)
		switch {
		case w.over, w.wants != nil && !w.wants(e):
		case len(w.events) >= room && !last:
			m := Missed(events[i : i+1])
			w.missed.Events += m.Events
			w.missed.Tasks += m.Tasks
		default:
			w.events = append(w.events, *e)
		}
	}
	if len(w.events) > 0 {
		w.signal()
	}
}

// Missed is what stands for events that are left out.
func Missed(events []event.Event) (m event.Missed) {
	m.Events = len(events)
	for _, e := range events {
		switch what := e.What.(type) {
		case event.Tasks:
			m.Tasks += what.Count
		case event.Missed:
			m.Events += what.Events - 1
			m.Tasks += what.Tasks
		}
	}
	return m
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next returns the next events, which the call after it overwrites, and blocks until there are some. It returns none when no more come, or when ctx has ended.
func (w *Watcher) Next(ctx context.Context) []event.Event {
	for ctx.Err() == nil {
		events, over := w.take()
		if len(events) > 0 || over {
			return events
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(gather):
		case <-w.hub.closed:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (w *Watcher) take() (events []event.Event, over bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	events, w.events, w.spare = w.events, w.spare[:0], w.events
	if w.missed.Events > 0 {
		missed := event.Event{Time: time.Now(), Process: w.hub.name, What: w.missed}
		at := len(events)
		if n := len(events) - 1; n >= 0 {
			if _, last := events[n].What.(event.RunEnded); last {
				at = n
			}
		}
		events, w.missed = slices.Insert(events, at, missed), event.Missed{}
	}
	return events, w.over
}

// All yields what the watcher gets until no more comes, and ctx.Err() if ctx ends before that. Then the watching is over.
func (w *Watcher) All(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		defer w.Stop()
		for events := w.Next(ctx); len(events) > 0; events = w.Next(ctx) {
			for _, e := range events {
				if ctx.Err() != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(event.Event{}, err)
		}
	}
}

// Stop ends the watching.
func (w *Watcher) Stop() {
	w.hub.change(func() {
		w.over = true
		w.hub.watchers = slices.DeleteFunc(w.hub.watchers, func(other *Watcher) bool { return other == w })
	})
	close(w.gone)
}
