package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// worker is a worker's process that sends what a test tells it to: for orders
// of messages that a real one produces once in a million.
type worker struct {
	name   string
	reader engine.Reader
	mu     sync.Mutex
	queued [][][]byte // not pushed yet
	posted chan [][]byte
	gone   chan struct{}
	done   chan struct{}
	once   sync.Once
	ending string
	told   bool
	dying  func() // called when it is killed
	killed time.Time
}

func (p *worker) Lost(string, int) error {
	return &engine.StartError{Err: errors.New("lost"), Ending: p.told}
}

// end ends the worker's process and makes its end known.
func (p *worker) end() {
	p.once.Do(func() { close(p.gone); close(p.done) })
}

func (p *worker) Name() string                                { return p.name }
func (p *worker) Expect()                                     {}
func (p *worker) Wait(context.Context, <-chan struct{}) error { panic("this test calls it") }
func (p *worker) Told() bool                                  { return p.told }
func (p *worker) Ending() string                              { return p.ending }
func (p *worker) ID() string                                  { return p.name }
func (p *worker) Memory() wire.Status                         { return wire.Status{} }
func (p *worker) Describe() []any                             { return []any{"worker", p.name} }
func (p *worker) Stop()                                       { p.end() }
func (p *worker) Terminate() error                            { p.end(); return nil }
func (p *worker) Kill(string) error {
	p.killed = time.Now()
	if p.dying != nil {
		p.dying()
	}
	p.end()
	return nil
}
func (p *worker) Gone() <-chan struct{} { return p.gone }
func (p *worker) Done() <-chan struct{} { return p.done }

// batch waits for the next tasks that it is given.
func (p *worker) batch(t *testing.T) (b wire.Batch) {
	t.Helper()
	for {
		select {
		case frames := <-p.posted:
			if wire.KindOf(frames) == wire.KindBatch {
				require.NoError(t, b.Unpack(frames))
				return b
			}
		case <-time.After(time.Minute):
			t.Fatal("no tasks came")
		}
	}
}

func (p *worker) say(t *testing.T, r wire.Results) {
	t.Helper()
	frames, err := r.Pack([][]byte{{0}})
	require.NoError(t, err)
	p.handle(wire.KindResults, frames)
}

// source is the source of a call.
type source struct {
	encode   func(lo, hi int) ([][]byte, error)
	finished chan error

	mu  sync.Mutex
	got map[int]int
}

func newSource() *source { return &source{finished: make(chan error, 1), got: map[int]int{}} }

func (s *source) Encode(lo, hi int) ([][]byte, error) {
	if s.encode != nil {
		return s.encode(lo, hi)
	}
	return [][]byte{{0}}, nil
}

func (s *source) Deliver(o engine.Outcome) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := o.Lo; i < o.Lo+o.N; i++ {
		s.got[i]++
	}
	return nil
}

func (s *source) Finish(err error, _ engine.Tally) { s.finished <- err }

// options returns the options of an engine that hands its workers to the test
// as they start.
func options(workers int) (engine.Options, chan *worker) {
	started := make(chan *worker, 100)
	n := 0
	return engine.Options{Workers: workers, Concurrency: 1, MaxAttempts: 3,
		CancelGrace: time.Hour, ShutdownGrace: time.Second, Log: slog.New(slog.DiscardHandler),
		Name:     func() string { n++; return fmt.Sprintf("w-%d", n) },
		WhenHeld: func(f func()) { f() }, Ending: context.Background(),
		Start: func(_ context.Context, name string, r engine.Reader) (engine.Process, error) {
			p := &worker{name: name, reader: r, posted: make(chan [][]byte, 1000), gone: make(chan struct{}), done: make(chan struct{})}
			started <- p
			return p, nil
		}}, started
}

func newEngine(t *testing.T, workers int) (*engine.Engine, chan *worker) {
	opts, started := options(workers)
	e := engine.New(opts)
	t.Cleanup(e.Terminate)
	return e, started
}

// up waits for workers to be started and makes them report that they are ready.
func up(started chan *worker, n int) []*worker {
	var workers []*worker
	for range n {
		p := <-started
		p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
		workers = append(workers, p)
	}
	return workers
}

func (p *worker) Post(frames ...[]byte) error {
	_ = p.Queue(frames...)
	p.Push()
	return nil
}

func (p *worker) Queue(frames ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = append(p.queued, frames)
	return nil
}

func (p *worker) Push() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, frames := range p.queued {
		p.posted <- frames
	}
	p.queued = nil
}

// handle hands the engine a message that comes alone.
func (p *worker) handle(kind wire.Kind, frames [][]byte) {
	p.reader.Handle(kind, frames)
	p.reader.Handled()
}

// batches returns the batches that a worker was given since the last call.
func (p *worker) batches(t *testing.T) (all []wire.Batch) {
	t.Helper()
	synctest.Wait() // others send them
	for len(p.posted) > 0 {
		if frames := <-p.posted; wire.KindOf(frames) == wire.KindBatch {
			var b wire.Batch
			require.NoError(t, b.Unpack(frames))
			all = append(all, b)
		}
	}
	return all
}

func TestHopelessStartIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	starts := 0
	e := engine.New(engine.Options{Name: func() string { return "w" }, Workers: 1, Concurrency: 1, MaxAttempts: 3, Log: slog.New(slog.DiscardHandler),
		Start: func(context.Context, string, engine.Reader) (engine.Process, error) {
			starts++
			return nil, &engine.StartError{Err: errors.New("no such image"), Permanent: true}
		}})
	s := newSource()
	_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
	require.NoError(t, err)
	require.ErrorContains(t, <-s.finished, "no such image")
	e.Terminate()
	require.Equal(t, 1, starts)
}

// A worker's report that a task is stuck may overtake its return of the tasks
// behind it.
func TestStuckOvertakesReturned(t *testing.T) {
	t.Parallel()
	e, started := newEngine(t, 1)
	s := newSource()
	_, err := e.Submit(s, 5, false, engine.CallOptions{Func: "f", Chunk: 5, Timeout: time.Second})
	require.NoError(t, err)
	p := <-started
	p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
	b := p.batch(t)
	require.Equal(t, 5, b.Count)
	p.say(t, wire.Results{Batch: b.ID, Started: 0})
	p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 1, Stuck: true, Errors: []wire.TaskError{{Index: 0}}})
	p.handle(wire.KindReturned, wire.MustPack(wire.KindReturned, wire.Returned{Batches: []wire.Remainder{{Batch: b.ID, From: 1}}}))
	p.say(t, wire.Results{Batch: b.ID, Started: -1, From: 1, Ended: true})
	for left := 4; left > 0; {
		b = p.batch(t)
		p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: 1000, Ended: true})
		left -= b.Count
	}
	select {
	case err := <-s.finished:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the call did not end")
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, s.got)
}

// A worker that reports the failure of a task that is not among its results is killed.
func TestFailureOfAnotherTask(t *testing.T) {
	t.Parallel()
	for _, index := range []int{-1, 1} {
		e, started := newEngine(t, 1)
		_, err := e.Submit(newSource(), 2, false, engine.CallOptions{Func: "f", Chunk: 2})
		require.NoError(t, err)
		p := <-started
		p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
		b := p.batch(t)
		p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 1, Errors: []wire.TaskError{{Index: index}}})
		require.NotZero(t, p.killed, index)
	}
}

// Cancelled calls do not pile up behind one that waits for a worker.
func TestCancelledCallsAreForgotten(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, 1)
	submit := func() (*engine.Call, weak.Pointer[source]) {
		s := newSource()
		c, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		return c, weak.Make(s)
	}
	submit()
	const n = 10
	var sources []weak.Pointer[source]
	for range n {
		c, s := submit()
		c.Cancel(nil)
		sources = append(sources, s)
	}
	runtime.GC()
	kept := 0
	for _, s := range sources {
		if s.Value() != nil {
			kept++
		}
	}
	require.LessOrEqual(t, kept, 1)
}

// When a call is cancelled while its input is being encoded, and the encoding
// fails, the worker is free for the next call.
func TestInputOfACancelledCallFails(t *testing.T) {
	t.Parallel()
	e, started := newEngine(t, 1)
	encoding, goOn := make(chan struct{}), make(chan struct{})
	s := newSource()
	s.encode = func(int, int) ([][]byte, error) {
		close(encoding)
		<-goOn
		return nil, errors.New("no")
	}
	first, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
	require.NoError(t, err)
	p := <-started
	go p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
	<-encoding
	first.Cancel(nil)
	_, err = e.Submit(newSource(), 1, false, engine.CallOptions{Func: "f"})
	require.NoError(t, err)
	close(goOn)
	b := p.batch(t)
	require.EqualValues(t, 1, b.Count)
}
