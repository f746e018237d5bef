package tree

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// together is how many events are a message at most.
const together = 256

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
			for some := range slices.Chunk(events, together) {
				err := p.conn.Send(ctx, wire.PackEvents(some)...)
				if errors.As(err, new(*transport.SizeError)) {
					missed := event.Event{Time: time.Now(), Process: p.node.Name, What: observe.Missed(some)}
					err = p.conn.Send(ctx, wire.PackEvents([]event.Event{missed})...)
				}
				if err != nil {
					return
				}
			}
		}
	}()
}
