package pipe

import (
	"sync"

	"github.com/fiber-go/fiber/internal/object"
)

// ports are the ports of this process.
var ports struct {
	sync.Mutex
	m map[*Port]struct{}
}

// watch subscribes the port to the home's notices about the end.
func (p *Port) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unwatch = p.home.Watch(p.ref, p.notice)
	ports.Lock()
	defer ports.Unlock()
	if ports.m == nil {
		ports.m = map[*Port]struct{}{}
	}
	ports.m[p] = struct{}{}
}

// LeaveAll ends the use of all ends in this process. Ends that are on their way
// to another process stay open for it, and what was read here is not delivered
// again.
func LeaveAll(s *object.Server) {
	ports.Lock()
	var all []*Port
	for p := range ports.m {
		if p.home == s {
			all = append(all, p)
		}
	}
	ports.Unlock()
	for _, p := range all {
		p.Leave()
		p.forget()
	}
}
