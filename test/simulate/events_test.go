package simulate

import (
	"context"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/event"
)

// ruleEvents: what is told of tasks adds up to what is told of their call.
var ruleEvents = rule("events")

// follow checks what is told until the work is over.
func (w *world) follow(ctx context.Context, over <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-over
		time.Sleep(time.Second) // for the last ones to come
		cancel()
	}()
	type call struct {
		process string
		number  uint64
	}
	type count struct{ done, failed int }
	counts, ended, missed := map[call]*count{}, map[call]bool{}, map[string]bool{}
	for e, err := range fiber.Events(ctx) {
		if err != nil {
			if ctx.Err() == nil && !w.shut.Load() {
				w.checkError("Events", err)
			}
			return
		}
		switch what := e.What.(type) {
		case event.Missed:
			missed[e.Process] = true
		case event.CallBegan:
			counts[call{e.Process, what.Call}] = new(count)
		case event.Tasks:
			c := counts[call{e.Process, what.Call}]
			if c == nil {
				continue // it began before
			}
			if what.Count < 1 || what.Failed+what.Again > what.Count || what.Took < 0 || what.Ended.Before(what.Began) {
				w.breach(ruleEvents, "%s says %+v", e.Process, what)
			}
			c.done += what.Count - what.Failed - what.Again
			c.failed += what.Failed
		case event.CallEnded:
			at := call{e.Process, what.Call}
			c := counts[at]
			switch {
			case ended[at]:
				w.breach(ruleEvents, "%s says twice that call %d has ended", e.Process, what.Call)
			case c == nil || missed[e.Process]:
				continue
			case c.done < what.Done || c.failed < what.Failed || what.Done+what.Failed == what.Tasks && c.done+c.failed != what.Tasks:
				w.breach(ruleEvents, "%s has told of %+v, and then says %+v", e.Process, *c, what)
			}
			ended[at] = true
			w.bit(ruleEvents)
		}
	}
}
