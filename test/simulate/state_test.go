package simulate

import (
	"context"
	"sync"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// kept is the state of a worker.
type kept struct {
	of     *sim.Process
	book   *poolBook
	ctx    context.Context
	mu     sync.Mutex
	closed bool
}

var state = fiber.RegisterState("state", func(ctx context.Context, book int) (*kept, error) {
	b := bookOf[*poolBook](book)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := &kept{of: sim.Here(), book: b, ctx: ctx}
	b.states[k] = true
	return k, nil
}, func(_ context.Context, k *kept) error {
	w := here()
	if k.mu.Lock(); k.closed || k.ctx.Err() != nil || k.of != sim.Here() {
		w.breach(ruleState, "a state of %s is closed: closed %t, its context: %v", k.of.Name, k.closed, k.ctx.Err())
	}
	k.closed = true
	k.mu.Unlock()
	k.book.mu.Lock()
	delete(k.book.states, k)
	k.book.mu.Unlock()
	w.bit(ruleState)
	return nil
})

// use says that a state is in use.
func (k *kept) use(w *world) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.of != sim.Here() {
		w.breach(ruleState, "a task in %s has a state of %s, closed: %t", sim.Here().Name, k.of.Name, k.closed)
	}
}
