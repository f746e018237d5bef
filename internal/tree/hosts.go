package tree

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

const (
	// maxStrikes is how many failed starts or lost processes in a row make a machine avoided.
	maxStrikes = 2
	// avoidTime is how long a machine is avoided after the last of them.
	avoidTime = time.Minute
	// strikeTime is how long a strike counts: a machine may be gone from the cluster.
	strikeTime = time.Hour
	// sureAfter is how long the cluster has to report that the lost processes ended by themselves, before the log says so.
	sureAfter = 6 * time.Second
)

// hosts are the machines of a cluster on which starts fail, or processes are lost. New processes avoid them for a
// while: a cluster takes longer than that to notice that a machine is dead.
type hosts struct {
	mu  sync.Mutex
	bad map[string]*badHost
}

type badHost struct {
	strikes int       // since the last start that succeeded
	last    time.Time // of them
	since   time.Time // when it came to be avoided
	until   time.Time // when it is avoided no longer
}

func (b *badHost) avoided() bool { return time.Now().Before(b.until) }

// strike notes that a start has failed on a host, or that a process was lost there; acquit takes the strike back. The host
// is "" for a process that has no machine yet.
func (n *Node) strike(host string) (acquit func()) {
	if host == "" || !n.avoids {
		return func() {}
	}
	h := &n.hosts
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(h.bad, func(_ string, b *badHost) bool { return now.Sub(b.last) > strikeTime })
	b := h.bad[host]
	if b == nil {
		b = new(badHost)
		if h.bad == nil {
			h.bad = map[string]*badHost{}
		}
		h.bad[host] = b
	}
	b.last = now
	if b.strikes++; b.strikes >= maxStrikes {
		if !b.avoided() {
			b.since = now
			self.AfterFunc(sureAfter, func() { n.warnOf(host) })
		}
		b.until = now.Add(avoidTime)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if b.strikes--; b.strikes < maxStrikes {
			b.until = time.Time{}
		}
		if b.strikes == 0 && h.bad[host] == b {
			delete(h.bad, host)
		}
	}
}

// startedOn notes that a start on a host has succeeded.
func (n *Node) startedOn(host string) {
	n.hosts.mu.Lock()
	defer n.hosts.mu.Unlock()
	delete(n.hosts.bad, host)
}

// Avoided lists the machines that new processes avoid now, sorted by name.
func (n *Node) Avoided() (names []string) {
	n.hosts.mu.Lock()
	defer n.hosts.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(n.hosts.bad)) {
		if n.hosts.bad[name].avoided() {
			names = append(names, name)
		}
	}
	return names
}

// fails says whether a host is avoided for sure: it has been for a while.
func (n *Node) fails(host string) bool {
	n.hosts.mu.Lock()
	defer n.hosts.mu.Unlock()
	b := n.hosts.bad[host]
	return b != nil && b.avoided() && time.Since(b.since) >= sureAfter
}

// warnOf logs a host that is avoided for sure.
func (n *Node) warnOf(host string) {
	if n.fails(host) {
		n.Log.Warn("fiber: a node is avoided: workers were lost there, or did not start", "node", host, "for", avoidTime)
	}
}
