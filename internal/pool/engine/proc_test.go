package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/pool/engine"
	workers "github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
)

// proc is a worker's process: its link and its death. Frames that were sent are
// in the socket and arrive even after a death; frames that were posted may be
// lost.
type proc struct {
	model  *model
	name   string
	worker *workers.Worker
	ctx    context.Context
	cancel context.CancelFunc

	in     chan [][]byte // to the worker
	socket chan [][]byte // from it
	read   [][]byte      // from the socket, of whoever reads
	reader *turn.Reader
	wake   chan struct{} // something is posted
	dead   chan struct{}
	kill   func()
	gone   chan struct{}

	ran, running atomic.Int32 // tasks

	mu     sync.Mutex
	outbox [][][]byte // posted, and not yet in the socket
	ended  bool       // the socket takes nothing more
}

type procKey struct{}

var errDead = errors.New("the process is dead")

func (m *model) start(ctx context.Context, name string, handle func(wire.Kind, [][]byte), idle func() bool) (engine.Process, error) {
	m.latency(100 * time.Millisecond)
	m.mu.Lock()
	m.refused = !m.refused && m.noise.IntN(8) == 0
	refused := m.refused
	m.mu.Unlock()
	if refused || ctx.Err() != nil {
		return nil, &engine.StartError{Err: errors.New("there is no room"), Permanent: m.chance(2) == 0}
	}
	p := &proc{model: m, name: name, in: make(chan [][]byte, 1<<14), socket: make(chan [][]byte, 1<<14), wake: make(chan struct{}, 1),
		dead: make(chan struct{}), gone: make(chan struct{})}
	p.kill = sync.OnceFunc(func() { close(p.dead); p.cancel() })
	p.ctx, p.cancel = context.WithCancel(context.WithValue(context.Background(), procKey{}, p))
	m.mu.Lock()
	m.procs = append(m.procs, p)
	m.mu.Unlock()
	p.worker = workers.Serve(p.ctx, p, workers.Options{Concurrency: m.opts.Concurrency,
		Error: func(fn string, err error) *wire.Error { return &wire.Error{Func: fn, Message: err.Error()} }})
	p.reader = turn.New(down{p}, func(frames [][]byte) error {
		handle(wire.KindOf(frames), frames)
		return nil
	}, idle, p.end)
	go p.write()
	go p.reader.Serve()
	p.Post(wire.MustPack(wire.KindReady, nil)...)
	return down{p}, nil
}

// write moves posted frames into the socket until the process ends.
func (p *proc) write() {
	ended := make(chan struct{})
	go func() {
		p.worker.Wait()
		close(ended)
	}()
	for over := false; !over; p.flush(over) {
		select {
		case <-p.wake:
			p.model.latency(200 * time.Microsecond)
		case <-ended:
			over = true
		case <-p.dead:
			over = true
		}
	}
	close(p.socket)
}

// flush moves the posted frames into the socket, followed by the given ones.
func (p *proc) flush(last bool, frames ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		p.ended = true
	default:
	}
	if p.ended {
		return errDead
	}
	for _, posted := range p.outbox {
		p.socket <- posted
	}
	p.outbox = nil
	if len(frames) > 0 {
		p.socket <- frames
	}
	p.ended = last
	return nil
}

// end follows the last message.
func (p *proc) end(error) {
	p.kill()
	p.model.mu.Lock()
	p.model.procs = slices.DeleteFunc(p.model.procs, func(q *proc) bool { return q == p })
	p.model.mu.Unlock()
	close(p.gone)
}

// The worker's side.

func (p *proc) Next(bool) (wire.Kind, [][]byte, error) {
	select {
	case frames := <-p.in:
		p.model.latency(200 * time.Microsecond)
		return wire.KindOf(frames), frames, nil
	case <-p.dead:
		return 0, nil, errDead
	}
}

// Send takes no time: a worker holds its lock meanwhile.
func (p *proc) Send(_ context.Context, frames ...[]byte) error { return p.flush(false, frames...) }

func (p *proc) Post(frames ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		return errDead
	default:
	}
	p.outbox = append(p.outbox, frames)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

// down is the engine's end of the link, whose methods have the names of the worker's.
type down struct{ *proc }

// The engine's side.

func (p down) RecvContext(ctx context.Context) ([][]byte, error) {
	for p.read == nil {
		select {
		case p.read = <-p.socket:
			if p.read == nil {
				return nil, errDead
			}
			p.model.latency(200 * time.Microsecond)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	frames := p.read
	p.read = nil
	return frames, nil
}

// Linger takes the next message from the socket, for RecvContext.
func (p down) Linger() bool {
	p.model.lingered.Add(1)
	p.model.latency(200 * time.Microsecond)
	if p.read != nil {
		return true
	}
	select {
	case p.read = <-p.socket:
		return true // also at the socket's end
	case <-time.After(time.Duration(p.model.chance(int(10 * time.Millisecond)))):
		return false
	}
}

func (p down) Wait(ctx context.Context, done <-chan struct{}) error {
	_, err := turn.Wait(ctx, p.reader, done)
	return err
}

func (p down) Post(frames ...[]byte) error {
	select {
	case <-p.dead:
		return errDead
	case p.in <- frames:
		return nil
	}
}
func (p down) Name() string           { return p.name }
func (p down) Expect()                { p.reader.Expect() }
func (p down) Told() bool             { return false }
func (p down) Ending() string         { return "signal: killed" }
func (p down) ID() string             { return p.name }
func (p down) Resident() int64        { return 0 }
func (p down) Lost(string, int) error { return errors.New("the worker was lost") }
func (p down) Describe() []any        { return []any{"worker", p.name} }
func (p down) Stop()                  { p.Post(wire.MustPack(wire.KindStop, nil)...) }
func (p down) Kill(string) error      { p.kill(); return nil }
func (p down) Gone() <-chan struct{}  { return p.gone }
func (p down) Done() <-chan struct{}  { return p.gone }
func (p down) Terminate() error {
	p.worker.Abort()
	p.cancel()
	return nil
}
