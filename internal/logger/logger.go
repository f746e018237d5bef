// Package logger takes Fiber's own log messages to the root's Config.Logger, whichever process they come from.
package logger

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/wire"
)

// handler passes records to a function.
type handler struct {
	level slog.Level
	take  func(slog.Record)
}

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h handler) Handle(_ context.Context, r slog.Record) error { h.take(r); return nil }

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.level, func(r slog.Record) {
		with := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		with.AddAttrs(attrs...)
		for a := range r.Attrs {
			with.AddAttrs(a)
		}
		h.take(with)
	}}
}

func (h handler) WithGroup(string) slog.Handler { return h } // Fiber's messages have no groups

// Watched returns a logger whose messages go to log, and to those who watch.
func Watched(log *slog.Logger, hub *observe.Hub) *slog.Logger {
	return slog.New(watched{log.Handler(), hub})
}

type watched struct {
	slog.Handler
	hub *observe.Hub
}

func (w watched) Handle(ctx context.Context, r slog.Record) error {
	if w.hub.On() {
		what := event.Log{Level: r.Level.String(), Message: r.Message}
		for a := range r.Attrs {
			what.Attrs = append(what.Attrs, a.String())
		}
		w.hub.Tell(what)
	}
	return w.Handler.Handle(ctx, r)
}

func (w watched) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watched{w.Handler.WithAttrs(attrs), w.hub}
}

// Up returns the logger of a process below the root: it sends each message to the parent with post. A message that cannot be
// sent goes to otherwise.
func Up(process string, level slog.Level, post func(frames ...[]byte) error, otherwise *slog.Logger) *slog.Logger {
	return slog.New(handler{level, func(r slog.Record) {
		if post(wire.MustPack(wire.KindLog, pack(process, r))...) != nil {
			otherwise.Handler().Handle(context.Background(), r)
		}
	}})
}

func pack(process string, r slog.Record) wire.Log {
	m := wire.Log{Time: r.Time, Level: int(r.Level), Message: r.Message, Process: process}
	for a := range r.Attrs {
		var value any
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool:
			value = v.Any()
		default:
			value = v.String()
		}
		m.Attrs = append(m.Attrs, wire.LogAttr{Key: a.Key, Value: value})
	}
	return m
}

// Record returns a message of another process as it is logged here. Its last attribute, "from", is the process's name.
func Record(m wire.Log) slog.Record {
	r := slog.NewRecord(m.Time, slog.Level(m.Level), m.Message, 0)
	for _, a := range m.Attrs {
		r.AddAttrs(slog.Any(a.Key, a.Value))
	}
	r.AddAttrs(slog.String("from", m.Process))
	return r
}

// room is how many messages wait for the user's logger at most.
const room = 1000

// Root is a logger that never makes its callers wait. A goroutine hands its messages to the user's logger, which may be slow, or
// use Fiber itself.
type Root struct {
	*slog.Logger
	to      slog.Handler
	waiting chan slog.Record
	dropped atomic.Int64
	end     func()
	told    chan struct{} // closed by end
	ended   chan struct{}
}

// NewRoot returns a Root. Its goroutine runs until Close.
func NewRoot(to *slog.Logger, level slog.Level) *Root {
	r := &Root{to: to.Handler(), waiting: make(chan slog.Record, room), told: make(chan struct{}), ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.told) })
	r.Logger = slog.New(handler{level, r.put})
	go r.run()
	return r
}

func (r *Root) put(rec slog.Record) {
	select {
	case r.waiting <- rec:
	default:
		r.dropped.Add(1)
	}
}

func (r *Root) run() {
	defer close(r.ended)
	for {
		select {
		case rec := <-r.waiting:
			r.hand(rec)
		case <-r.told:
			for len(r.waiting) > 0 {
				r.hand(<-r.waiting)
			}
			return
		}
	}
}

// hand hands over a message, and then says how many were dropped before it.
func (r *Root) hand(rec slog.Record) {
	ctx := context.Background()
	if r.to.Enabled(ctx, rec.Level) {
		r.to.Handle(ctx, rec)
	}
	if n := r.dropped.Swap(0); n > 0 {
		slog.New(r.to).Warn("fiber: Config.Logger is slow: messages were dropped", "messages", n)
	}
}

// Close returns when all messages so far have been handed over, or after patience. Later ones are dropped.
func (r *Root) Close(patience time.Duration) {
	r.end()
	select {
	case <-r.ended:
	case <-time.After(patience):
	}
}
