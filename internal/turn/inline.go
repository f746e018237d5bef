package turn

import (
	"sync/atomic"
	"time"
)

// patience is about how long something thought to be short may run before
// another goroutine reads in its place.
const patience = 2 * time.Millisecond

// Inline lets the goroutine that reads also run what it has read, which saves
// that the way to another goroutine. When it takes long after all, another
// one takes the reading over.
type Inline struct {
	read    func()        // reads until the end, or until Run says no
	turn    atomic.Uint64 // odd: the reading goroutine runs something
	watched atomic.Bool
}

// NewInline makes an Inline; read is what the goroutine that takes over calls.
func NewInline(read func()) *Inline { return &Inline{read: read} }

// Run runs f and says whether the calling goroutine is still the one to read.
// f may end its goroutine.
func (i *Inline) Run(f func()) (still bool) {
	turn := i.turn.Add(1)
	i.watch()
	returned := false
	defer func() {
		still = i.turn.CompareAndSwap(turn, turn+1)
		if still && !returned {
			go i.read()
		}
	}()
	f()
	returned = true
	return
}

// watch has somebody look after what runs, for as long as something does.
func (i *Inline) watch() {
	if i.watched.CompareAndSwap(false, true) {
		i.look(i.turn.Load())
	}
}

func (i *Inline) look(before uint64) {
	time.AfterFunc(patience, func() {
		now := i.turn.Load()
		switch {
		case now != before:
			i.look(now)
			return
		case now%2 == 1 && i.turn.CompareAndSwap(now, now+1):
			go i.read()
		}
		i.watched.Store(false)
		if i.turn.Load() != now && i.turn.Load()%2 == 1 {
			i.watch() // something has begun in between
		}
	})
}
