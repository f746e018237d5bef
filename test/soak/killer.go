package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The kinds of processes, which are the beginnings of their names.
const (
	workerKind  = "worker"
	printerKind = "printer" // a worker that prints
	managerKind = "manager"
	queueKind   = "queue"
	pipeKind    = "pipe"
	nestedKind  = "nested"
	keeperKind  = "keeper" // a manager whose objects are used in a hurry
	homeKind    = "home"   // a process whose queue and pipe are
	userKind    = "user"   // of either
	ringKind    = "Ring"   // Fiber names these
)

// settles is how long a lost node may still have effects after it has come back.
const settles = 3 * time.Minute

// killer kills a process now and then, and a node.
type killer struct {
	s     *soak
	lock  sync.Mutex
	kills map[string]int // by kind, those that have begun and those that are over
	dying map[string]int // by kind, those that have begun and are not over
	deeds map[string]int // by way
	quiet time.Time      // until when the loss of a node may have effects
	lulls []string       // the latest stops

	victims  map[string]bool // by name
	troubles []time.Time     // of nodes
}

func (k *killer) String() string {
	k.lock.Lock()
	defer k.lock.Unlock()
	all := "kills:"
	for _, way := range slices.Sorted(maps.Keys(k.deeds)) {
		all += fmt.Sprintf(" %d %s,", k.deeds[way], way)
	}
	return all
}

// mark returns how many of a kind have been killed so far; since reports whether one has died since then or is dying, or a
// node was lost.
func (k *killer) mark(kind string) int {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.kills[kind]
}

func (k *killer) since(kind string, mark int) bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.s.killed || k.kills[kind] > mark || k.dying[kind] > 0 || time.Now().Before(k.quiet)
}

// struck says whether a process has been killed, or anything was done to a node while it was at work.
func (k *killer) struck(process string, from, to time.Time) bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.victims[process] || slices.ContainsFunc(k.troubles, func(t time.Time) bool {
		return t.After(from.Add(-5*time.Second)) && t.Before(to.Add(15*time.Second))
	})
}

// note records a deed before it is done.
func (k *killer) note(kind, way string, quiet time.Duration) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.kills[kind]++
	k.deeds[way]++
	if kind == "node" {
		k.troubles = append(k.troubles, time.Now())
	}
	if quiet > 0 {
		k.quiet = time.Now().Add(quiet)
	}
}

// dies counts a process that begins to die or, with -1, is gone.
func (k *killer) dies(kind string, n int) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.dying[kind] += n
	k.kills[kind]++
}

// pause waits; it returns false if the run is over.
func (k *killer) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-k.s.stop:
		return false
	}
}

// rage kills processes. It chooses a kind first, so that the only manager dies as often as any of the workers.
func (k *killer) rage(ctx context.Context) {
	r := rand.New(rand.NewPCG(k.s.seed, 1000))
	var waits sync.WaitGroup
	defer waits.Wait()
	for k.s.every > 0 && k.pause(time.Duration(r.Int64N(2*int64(k.s.every)))) {
		kinds := map[string][]victim{}
		for _, v := range k.s.ground.victims(ctx) {
			kinds[v.kind()] = append(kinds[v.kind()], v)
		}
		if len(kinds) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(kinds))
		victims := kinds[names[r.IntN(len(names))]]
		v, way := victims[r.IntN(len(victims))], k.s.ground.ways[r.IntN(len(k.s.ground.ways))]
		k.note(v.kind(), way.name, 0)
		k.dies(v.kind(), 1)
		k.lock.Lock()
		k.victims[v.name] = true
		k.lock.Unlock()
		lines(ctx, append(slices.Clone(way.command), v.id)) // it may have ended
		waits.Go(func() {                                   // a process that is told to end, or is paused, works or is missed for a while
			defer k.dies(v.kind(), -1)
			for slices.Contains(k.s.ground.victims(ctx), v) && k.pause(time.Second) {
			}
		})
	}
}

// homes are the kinds of processes in which objects live that others use.
var homes = []string{keeperKind, homeKind, managerKind, rootKind}

// lull stops a process now and then, a home most often, and lets it go on after a few seconds, before it counts as lost.
func (k *killer) lull(ctx context.Context) {
	r := rand.New(rand.NewPCG(k.s.seed, 3000))
	var waits sync.WaitGroup
	defer waits.Wait()
	for k.s.lulls > 0 && k.pause(time.Duration(r.Int64N(2*int64(k.s.lulls)))) {
		kinds := map[string][]victim{}
		for _, v := range append(k.s.ground.victims(ctx), k.s.ground.root()...) {
			if v.kind() != "" && (r.IntN(2) == 0 || slices.Contains(homes, v.kind())) {
				kinds[v.kind()] = append(kinds[v.kind()], v)
			}
		}
		if len(kinds) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(kinds))
		victims := kinds[names[r.IntN(len(names))]]
		v, long := victims[r.IntN(len(victims))], time.Second/2+time.Duration(r.Int64N(int64(9*time.Second/2)))
		k.lock.Lock()
		k.deeds["lulled"]++
		k.lulls = append(k.lulls[max(0, len(k.lulls)-5):], fmt.Sprintf("%s after %v for %v", v.kind(), time.Since(k.s.begun).Round(time.Second/10), long.Round(time.Second/10)))
		k.lock.Unlock()
		waits.Go(func() { k.s.ground.lull(context.WithoutCancel(ctx), v, long, k.s.stop) })
	}
}

// lately returns which processes were stopped last.
func (k *killer) lately() []string {
	k.lock.Lock()
	defer k.lock.Unlock()
	return slices.Clone(k.lulls)
}

// trouble cuts a node off, kills it and drains it, one of them in each part of the time, and brings it back each time.
func (k *killer) trouble(ctx context.Context) {
	r := rand.New(rand.NewPCG(k.s.seed, 2000))
	deeds := [][2]string{{"cut", "join"}, {"kill", "up"}, {"drain", "uncordon"}}
	if k.s.root == "node2" { // what ends the root ends the run
		deeds = deeds[:1]
	}
	part := min(45*time.Second, k.s.duration/time.Duration(len(deeds)))
	share := func(least, most int64) time.Duration { return part / 45 * time.Duration(least+r.Int64N(most-least)) }
	begun := time.Now()
	for n := 0; k.s.node != "" && k.pause(time.Until(begun.Add(part*time.Duration(n)+share(8, 20)))); n++ {
		i := n % len(deeds)
		if i == 0 {
			r.Shuffle(len(deeds), func(i, j int) { deeds[i], deeds[j] = deeds[j], deeds[i] })
		}
		deed := deeds[i]
		k.note("node", "nodes "+deed[0], time.Hour)
		_, err := lines(ctx, []string{k.s.node, deed[0]})
		k.pause(share(3, 22))
		_, back := lines(context.WithoutCancel(ctx), []string{k.s.node, deed[1]})
		k.note("node", "nodes "+deed[1], settles)
		if err := errors.Join(err, back); err != nil {
			k.s.fail(fmt.Errorf("the node: %w", err))
			return
		}
	}
}
