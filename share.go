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

// Shared is a value that is sent once to each process that asks for it,
// however many tasks use it. It is made by Share and travels as (part of) an
// argument or a result; only its name does, until somebody calls Get.
type Shared[T any] struct{ ref object.Ref }

// Share makes a value available to all processes of the run. The value is
// encoded now, so v may be changed afterwards. It stays available until it is
// closed, or until nobody here holds what Share returned any more.
func Share[T any](_ context.Context, v T) (*Shared[T], error) {
	proc, err := running()
	if err != nil {
		return nil, err
	}
	frames, err := codec.Marshal(v)
	if err != nil {
		return nil, errorf("fiber: the shared value: %w", err)
	}
	if err := proc.fits(frames); err != nil {
		return nil, errorf("fiber: the shared value: %w", err)
	}
	ref, err := proc.home.Keep(object.Value{Frames: frames}.Private().Frames) // some are parts of v itself
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

// Get gives the value. The first call in a process fetches it from where it
// was shared and blocks until it is here or ctx ends; later calls give the
// same value again, so it must not be changed. The error is ErrClosed when
// the value was closed.
//
// A gap in the network that this process outlives fails nobody's Get: it asks again
// until its home has ended, or was out of reach for heartbeat_timeout.
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
			return v, objectError("the shared value", err)
		}
		select {
		case <-time.After(fetchPause):
		case <-ctx.Done():
			return zero, ctx.Err()
		}
	}
}

// fetchPause is between two tries to fetch a value.
const fetchPause = 250 * time.Millisecond

// fetched gives the value of the cache, or else that of its home.
func (s *Shared[T]) fetched(ctx context.Context, proc *process) (T, error) {
	var zero T
	c := cachedShared(s.ref)
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
	c.hold(proc.home, s.ref)
	frames, err := object.Ask(ctx, proc.home, s.ref, object.Fetch, object.None{}, nil)
	if err != nil {
		forgetShared(s.ref)
		return zero, err
	}
	var v T
	if err := codec.Unmarshal(frames, &v); err != nil {
		return zero, errorf("fiber: the shared value: %w", err)
	}
	c.value, c.set = v, true
	return v, nil
}

// Close takes the value back, from the caches of the processes that have it,
// too. It is called where the value was shared; elsewhere, and a second time,
// it does nothing.
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

// MarshalBinary gives the value's name.
func (s *Shared[T]) MarshalBinary() ([]byte, error) { return s.ref.MarshalBinary() }

// UnmarshalBinary takes a name.
func (s *Shared[T]) UnmarshalBinary(b []byte) error { return s.ref.UnmarshalBinary(b) }

// sharedCache is the decoded shared values of this process.
var sharedCache struct {
	sync.Mutex
	values map[object.Ref]*sharedValue
}

type sharedValue struct {
	busy  chan struct{} // has one in it while somebody fetches it
	drop  func()        // ends the hold, nil when it is not held
	set   bool
	value any
}

func cachedShared(ref object.Ref) *sharedValue {
	sharedCache.Lock()
	defer sharedCache.Unlock()
	c := sharedCache.values[ref]
	if c == nil {
		c = &sharedValue{busy: make(chan struct{}, 1)}
		if sharedCache.values == nil {
			sharedCache.values = map[object.Ref]*sharedValue{}
		}
		sharedCache.values[ref] = c
	}
	return c
}

// hold has the value forgotten when its home says so, or is gone.
func (c *sharedValue) hold(h *object.Server, ref object.Ref) {
	sharedCache.Lock()
	defer sharedCache.Unlock()
	if c.drop != nil {
		return
	}
	stop := h.Watch(ref, func(byte, []byte, [][]byte) { forgetShared(ref) })
	h.Hold(ref)
	c.drop = func() {
		stop()
		h.Release(ref)
	}
}

// forgetShared takes a value out of the cache.
func forgetShared(ref object.Ref) {
	sharedCache.Lock()
	c := sharedCache.values[ref]
	delete(sharedCache.values, ref)
	sharedCache.Unlock()
	if c != nil && c.drop != nil {
		c.drop()
	}
}
