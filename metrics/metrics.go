// Package metrics has a program that imports it serve figures of its run for Prometheus, when FIBER_METRICS is an address, as in
//
//	FIBER_METRICS=:9090 go run ./sweep
//
// They are at /metrics, for everybody who reaches the address: there is no token. A program that serves metrics already registers
// [NewCollector] instead. docs/metrics.md in the project lists them.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	_ "github.com/fiber-go/fiber" // whose events they are
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/stdio"
)

func init() { observe.Metrics.Register(start) }

// start serves the figures of a run at an address until the function that it returns is called.
func start(s observe.Settings) (end func(runErr string), err error) {
	l, err := net.Listen("tcp", s.Metrics)
	if err != nil {
		return nil, fmt.Errorf("FIBER_METRICS=%s: %w; name an address of this machine with a free port", s.Metrics, err)
	}
	c := newCollector(s.Program, s.Backend)
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4}))
	server := http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	host, _, _ := net.SplitHostPort(s.Metrics)
	at := l.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() {
		host = "localhost"
	}
	fmt.Fprintf(stdio.Stderr, "fiber: metrics: http://%s/metrics\n", net.JoinHostPort(host, strconv.Itoa(at.Port)))
	counted := make(chan struct{})
	events := s.Events() // nothing that follows is missed
	go func() {
		defer close(counted)
		c.count(events)
	}()
	return func(string) {
		server.Close()
		<-served
		<-counted
	}, nil
}

// NewCollector returns a collector of the same metrics for a registry of the program's own. It counts what happens from now on in this
// process and those below it, until ctx or the process ends, and keeps the figures then: make it once, before the first pool. It does not
// block. Before fiber.Main or fiber.Init the error is fiber.ErrNotInitialized, and for a context that has ended, the context's.
func NewCollector(ctx context.Context) (prometheus.Collector, error) {
	if ctx == nil {
		return nil, errors.New("fiber: the context is nil; pass the one that your function receives, or context.Background()")
	}
	hub, err := observe.Current()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	c := newCollector("", "")
	events := hub.Watch(nil).All(ctx)
	go c.count(events)
	return c, nil
}

// count counts what comes.
func (c *collector) count(events iter.Seq2[event.Event, error]) {
	for e, err := range events {
		if err == nil {
			c.add(e)
		}
	}
}
