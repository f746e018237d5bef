package pipe

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
)

// watch is the ports of one end in this process: more than one while it moves
// from here to here.
type watch struct {
	mu    sync.Mutex
	ports []*Port // replaced, not changed
}

type watched struct {
	home *home.Home
	ref  home.Ref
}

var watches struct {
	sync.Mutex
	m map[watched]*watch
}

func (p *Port) key() watched {
	ref := p.ref
	ref.Process, ref.PID = "", 0
	return watched{p.home, ref}
}

// watch has the port told what the home tells about the end.
func (p *Port) watch() {
	watches.Lock()
	defer watches.Unlock()
	w := watches.m[p.key()]
	if w == nil {
		w = new(watch)
		if watches.m == nil {
			watches.m = map[watched]*watch{}
		}
		watches.m[p.key()] = w
		p.home.Watch(p.ref, w.notice)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports = append(slices.Clip(w.ports), p)
}

// unwatch ends that. The port's lock may be held.
func (p *Port) unwatch() {
	watches.Lock()
	defer watches.Unlock()
	w := watches.m[p.key()]
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports = slices.DeleteFunc(slices.Clone(w.ports), func(o *Port) bool { return o == p })
	if len(w.ports) == 0 {
		delete(watches.m, p.key())
		p.home.Watch(p.ref, nil)
	}
}

func (w *watch) notice(op byte, args []byte, value [][]byte) {
	w.mu.Lock()
	ports := w.ports
	w.mu.Unlock()
	for _, p := range ports {
		p.notice(op, args, value)
	}
}

// LeaveAll ends the use of all ends in this process: those that are on their
// way to somebody are theirs, and what was read here is not read again.
func LeaveAll(h *home.Home) {
	watches.Lock()
	var ports []*Port
	for key, w := range watches.m {
		if key.home == h {
			w.mu.Lock()
			ports = append(ports, w.ports...)
			w.mu.Unlock()
		}
	}
	watches.Unlock()
	for _, p := range ports {
		p.Leave()
		p.forget()
	}
}
