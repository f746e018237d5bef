package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fiber-go/fiber/event"
)

// Counting returns a collector, and what has it count an event.
func Counting(program, backend string) (prometheus.Collector, func(event.Event)) {
	c := newCollector(program, backend)
	return c, c.add
}
