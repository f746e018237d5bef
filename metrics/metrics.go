// Package metrics has a program that imports it serve figures of its run for Prometheus, when FIBER_METRICS is an address, as in
//
//	FIBER_METRICS=:9090 go run ./sweep
//
// They are at /metrics, for everybody who reaches the address: there is no token. A program that serves metrics already registers
// [NewCollector] instead. docs/metrics.md in the project lists them.
package metrics

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fiber-go/fiber"
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
		for e, err := range events {
			if err != nil {
				return
			}
			c.add(e)
		}
	}()
	return func(string) {
		server.Close()
		<-served
		<-counted
	}, nil
}

// NewCollector returns a collector of the same metrics for a registry of the program's own. It counts what happens from now on in this
// process and those below it, until ctx or the process ends, and keeps the figures then: make it once, before the first pool.
// NewCollector blocks for about 50 ms. Call it after fiber.Init, in the function of fiber.Main for example; otherwise, and when ctx has
// ended, it returns an error.
func NewCollector(ctx context.Context) (prometheus.Collector, error) {
	c := newCollector("", "")
	begun := make(chan error, 1)
	go func() {
		for e, err := range fiber.Events(ctx) {
			if err == nil {
				c.add(e)
			}
			select {
			case begun <- err:
			default:
			}
		}
		select {
		case begun <- fiber.ErrShutdown:
		default:
		}
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	return c, nil
}
