package tree

import (
	"context"
	"sync"

	"github.com/fiber-go/fiber/internal/wire"
)

// observed sends the parent what happens in this process, while somebody there watches.
type observed struct {
	mu   sync.Mutex
	stop context.CancelFunc // nil while nobody does
}

// set begins or ends the sending.
func (o *observed) set(p *Parent, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if on == (o.stop != nil) {
		return
	}
	if !on {
		o.stop()
		o.stop = nil
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	w := p.node.Events.Watch(nil)
	go func() {
		defer w.Stop()
		for events := w.Next(ctx); len(events) > 0; events = w.Next(ctx) {
			if p.conn.Send(ctx, wire.PackEvents(events)...) != nil {
				return
			}
		}
	}()
}
