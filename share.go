package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
)

// Shared is a value that is sent only once to each process, however many tasks
// use it. Create it with Share. It travels as (part of) an argument or a
// result, as a reference; Get fetches the value.
type Shared[T any] struct{ ref object.Ref }

// Share makes a value available to all processes of the run. It encodes v
// before it returns, so v may be changed afterwards. The value stays available
// until Close, or until the result of Share becomes unreachable in this
// process. Share does not wait for anybody; if ctx has ended, Share returns
// ctx.Err().
func Share[T any](ctx context.Context, v T) (*Shared[T], error) {
	proc, err := running()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	frames, err := codec.Marshal(v)
	if err == nil {
		err = proc.fits(frames)
	}
	if err != nil {
		return nil, errorf("fiber: the shared value: %w", err)
	}
	ref, err := proc.home.Keep(object.Encoded(frames).Private()) // some frames are parts of v itself
	if err != nil {
		return nil, err
	}
	s := &Shared[T]{ref: ref}
	runtime.AddCleanup(s, func(ref object.Ref) {
		forgetShared(ref)
		go proc.home.Withdraw(ref)
	}, ref)
	return s, nil
}

// Get returns the value. The first call in a process fetches it from the
// process that shared it, and blocks until it is here or ctx ends. Later calls
// return the same value, so it must not be changed. The error is ErrClosed when
// the value was closed, a *WorkerLostError when the process that shared it was
// lost, a *MismatchError when the value is not a T, or ctx.Err().
//
// A gap in the network does not fail Get, which asks again until the process
// that shared the value has ended, or was out of reach for heartbeat_timeout.
func (s *Shared[T]) Get(ctx context.Context) (T, error) {
	var zero T
	proc, err := running()
	if err != nil {
		return zero, err
	}
	if s == nil || s.ref == (object.Ref{}) {
		return zero, errEmpty("Shared")
	}
	for begun := time.Now(); ; {
		v, err := s.fetched(ctx, proc)
		var lost *object.LostError
		if !errors.As(err, &lost) || lost.Certain() || time.Since(begun) > proc.node.Config.HeartbeatTimeout {
			return v, errorOf("the shared value", err)
		}
		select {
		case <-time.After(fetchPause):
		case <-ctx.Done():
			return zero, ctx.Err()
		}
	}
}

// fetchPause is the time between two tries to fetch a value.
const fetchPause = 250 * time.Millisecond

// fetched returns the value from the cache, or else from its home.
func (s *Shared[T]) fetched(ctx context.Context, proc *process) (T, error) {
	var zero T
	c := cachedShared(proc.home, s.ref)
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return zero, ctx.Err()
	}
	if c.set {
		v, ok := c.value.(T)
		if !ok {
			return zero, &MismatchError{Reason: fmt.Sprintf("the shared value is a %T, not a %T", c.value, zero)}
		}
		return v, nil
	}
	kept, err := object.Ask(ctx, proc.home, s.ref, object.Fetch, object.None{}, nil)
	if err != nil {
		forgetShared(s.ref)
		return zero, err
	}
	var v T
	if err := codec.Unmarshal(kept.Frames(), &v); err != nil {
		return zero, errorf("fiber: the shared value: %w", err)
	}
	c.value, c.set = v, true
	return v, nil
}

// Close withdraws the value, also from the caches of the processes that have
// fetched it. In a process that has not shared the value, and when called a
// second time, Close is a no-op.
func (s *Shared[T]) Close() {
	proc := current.Load()
	if proc == nil {
		return
	}
	if proc.home.Local(s.ref) != nil {
		proc.home.Withdraw(s.ref)
	}
	forgetShared(s.ref)
}

// MarshalBinary encodes a reference to the value.
func (s *Shared[T]) MarshalBinary() ([]byte, error) { return s.ref.Append(nil), nil }

// UnmarshalBinary decodes a reference to a value.
func (s *Shared[T]) UnmarshalBinary(b []byte) error {
	_, err := s.ref.Read(b)
	return err
}

// sharedCache holds the decoded shared values of this process.
var sharedCache = struct {
	sync.Mutex
	values map[object.Ref]*sharedValue
}{values: map[object.Ref]*sharedValue{}}

type sharedValue struct {
	busy  chan struct{} // holds an element while a goroutine fetches the value
	drop  func()        // ends the hold
	set   bool
	value any
}

// cachedShared returns the cache's entry for a value. A new entry holds the value,
// and is forgotten when the value's home says so, or is gone.
func cachedShared(h *object.Server, ref object.Ref) *sharedValue {
	sharedCache.Lock()
	defer sharedCache.Unlock()
	c := sharedCache.values[ref]
	if c == nil {
		stop := h.Watch(ref, func(*object.Request) { forgetShared(ref) })
		h.Hold(ref)
		c = &sharedValue{busy: make(chan struct{}, 1), drop: func() {
			stop()
			h.Release(ref)
		}}
		sharedCache.values[ref] = c
	}
	return c
}

// forgetShared takes a value out of the cache.
func forgetShared(ref object.Ref) {
	sharedCache.Lock()
	c := sharedCache.values[ref]
	delete(sharedCache.values, ref)
	sharedCache.Unlock()
	if c != nil {
		c.drop()
	}
}
