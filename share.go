package fiber

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/shm"
)

// Shared is a value that is sent only once to each process, however many tasks
// use it. Create it with Share. It lives in the process that made it, and moves to the
// program's main process when that one ends in order. It travels as (part of) an
// argument, a result, or an item of a queue, as a reference; Get fetches the value. A pool
// prefers an idle worker that has it for a task that refers to it: see Pool.
//
// On Linux, the processes of this machine have one copy of a value of 64 KiB or more:
// slices of numbers of 32 KiB or more are read in place, from memory that no process's
// meta.Memory counts, and everything else is decoded by each process. That includes the
// containers of an engine on this machine, for the values that the program itself has
// shared, unless Config.Host is set. All other processes have a copy each. So has every
// process of what comes beyond 8,192 such values in it, or beyond a quarter of the files
// that the value's process may open; that one has it in its own memory then. To Go's
// collector shared memory is a part of the heap: a memory limit that was set before Get
// grows by it. A page that is written to becomes the process's own.
//
// Processes that have a copy of 256 KiB or more pass it on to others, in pieces, while it
// comes and as long as they keep it: its home sends it a few times only, however many
// machines fetch it, if these reach each other. The home also sends a hash of each piece,
// with which what has come is compared. What is passed on is kept in its encoded form, in
// which slices of numbers are read in place; everything else takes memory twice.
//
// Config.ShareMemory limits the memory of such values in the process where they lie.
// The rest lies in files without names in the directory for temporary files; if it has
// no room there, Share returns an error that says how much there is. As many bytes of
// other values are kept by a process that has got them, or a single larger one; what it
// used longest ago goes first, and the next Get fetches it again. What is decoded from
// the machine's copy counts nowhere.
type Shared[T any] struct{ p proxy }

// Share makes a value available to all processes of the run. It encodes v
// before it returns, so v may be changed afterwards. The value stays available
// until Close, or until no process has it any more: up to a minute after Go's garbage
// collector has found in each process that what Share has returned, or what has arrived,
// is unreachable. An idle process collects garbage every two minutes. What is large, or
// one of many, is better closed.
//
// In the program's main process, Share waits for nothing but the value's own encoding.
// Any other process also tells the main process of the value, and waits for the answer.
// When such a process ends in order (its function returns, its pool is closed, or it is
// replaced), it hands its values over to the main process: on Linux, the memory itself if
// both are on one machine, else a copy. A process that is killed, or has no time for it,
// takes them with it, unless they were shared WithCopies(2), or have 4 KiB at most: of
// these the main process always has a copy. A worker, and a process that was told to end,
// have three quarters of shutdown_grace for that; a process that ends by itself has
// shutdown_grace and heartbeat_timeout together. A value for which the main process has no
// room (see Config.ShareMemory) is lost, too. What is lost in an orderly end is logged.
//
// What v refers to, other shared values or queues, lives as long as the value. The
// encoded value must fit into Config.MaxMessage.
//
// If ctx has ended, Share returns ctx.Err().
func Share[T any](ctx context.Context, v T, opts ...ShareOption) (*Shared[T], error) {
	proc, err := running()
	if err == nil && ctx == nil {
		err = errNilContext
	}
	if err != nil {
		return nil, err
	}
	o := shareOptions{copies: 1}
	if err := configured("Share", &o, opts, ShareOption.share); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	frames, named, err := codec.MarshalListing(reflect.ValueOf(&v).Elem(), names)
	if err == nil {
		err = proc.fitsSize(codec.Size(frames) + shareOverhead + 10*len(frames))
	}
	if err := ctx.Err(); err != nil { // its encoding may have taken long
		return nil, err
	}
	if err != nil {
		return nil, errorf("fiber: the shared value: %w", err)
	}
	at, err := proc.objects.Keep(ctx, frames, parcelOf(named).refs()...)
	runtime.KeepAlive(v)
	if full := (*shm.FullError)(nil); errors.As(err, &full) {
		return nil, errorf("fiber: the shared value: %w", err)
	}
	if err != nil {
		return nil, err
	}
	ref, err := patiently(ctx, proc, func() (object.Ref, error) { return proc.objects.List(ctx, at) })
	if err != nil {
		proc.objects.Remove(at.Object)
		return nil, errorOf(ctx, "the list of shared values", err)
	}
	s := new(Shared[T])
	s.p.attach(proc.attach(ref))
	if o.copies > 1 {
		_, err = patiently(ctx, proc, func() (none struct{}, err error) { return none, proc.objects.Give(ctx, ref) })
	}
	if err != nil {
		s.Close()
		return nil, errorOf(ctx, "the second copy of the shared value", errorf("fiber: the second copy of the shared value: %w", err))
	}
	return s, nil
}

// shareOverhead is the room that a message needs for what it says of a shared value.
const shareOverhead = 256

// shareOptions are how a value is shared.
type shareOptions struct{ copies int }

// WithCopies(2) puts a second copy of the value into the program's main process, before
// Share returns: the value survives the loss of the process that shares it. On one
// machine of Linux, the two are the same memory if the value has 64 KiB or more.
// WithCopies(1) is the default. In the main process both mean the same, as the run ends
// with it.
func WithCopies(n int) ShareOption {
	return shareOption(func(o *shareOptions) error {
		if o.copies = n; n < 1 || n > 2 {
			return fmt.Errorf("fiber: WithCopies(%d): a shared value has one copy, or two", n)
		}
		return nil
	})
}

// Get returns the value. The first call in a process fetches it from the
// process that has it, and blocks until it is here or ctx ends. Later calls
// return the same value while the process keeps it, so it must not be changed; no other
// process sees what is written to it. A part of it may be kept for as long as it is
// needed, also after Close. The error is ErrClosed when the value was closed, a
// *WorkerLostError that names the process that shared it when the value was lost with
// that, a *MismatchError when the value is not a T, or ctx.Err().
//
// A gap in the network does not fail Get, which asks again until the process
// that shared the value has ended, or was out of reach for heartbeat_timeout.
func (s *Shared[T]) Get(ctx context.Context) (T, error) {
	var none T
	h := used(s)
	if h == nil {
		return none, errEmpty("Shared")
	}
	if ctx == nil {
		return none, errNilContext
	}
	v, err := patiently(ctx, h.proc, func() (T, error) { return fetched[T](ctx, h) })
	runtime.KeepAlive(s)
	return v, objectError(ctx, s, err)
}

// patiently calls ask until it has reached the value's home, or that has ended or was out of reach for too long.
func patiently[A any](ctx context.Context, proc *process, ask func() (A, error)) (a A, err error) {
	err = object.Patiently(ctx, proc.node.Config.HeartbeatTimeout, func() (err error) {
		a, err = ask()
		return err
	})
	if errors.As(err, new(*object.LostError)) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return a, err
}

// fetched returns the value from the cache, or else from its home.
func fetched[T any](ctx context.Context, h *handle) (T, error) {
	var zero T
	c := h.proc.shared.at(h.proc.objects, h.ref)
	if err := c.fetching.Lock(ctx); err != nil {
		return zero, err
	}
	defer c.fetching.Unlock()
	if c.set {
		v, ok := c.value.(T)
		if !ok {
			return zero, &MismatchError{Reason: fmt.Sprintf("the shared value is a %T, not a %T", c.value, zero)}
		}
		return v, nil
	}
	got, err := h.proc.objects.Fetch(ctx, h.ref)
	if err != nil {
		if ctx.Err() == nil {
			h.proc.shared.forget(h.ref, c)
		}
		return zero, err
	}
	var v T
	if err := codec.Unmarshal(got.Frames, &v); err != nil {
		got.Drop()
		return zero, mismatch("the shared value cannot be decoded as a %v: %v", reflect.TypeFor[T](), err)
	}
	c.value, c.set = v, true
	h.proc.shared.grow(h.ref, c, got, h.proc.node.ShareMemory())
	return v, nil
}

// Close withdraws the value, from any process that has it, also from those that have
// fetched it. From then on Get returns ErrClosed: at once in this process, and in another
// one that has made or fetched the value as soon as the news has come there, which takes
// as long as any message, and may come after a task that was submitted later. A process
// that is cut off forgets the value when it notices that, after heartbeat_timeout at most.
// What Get has returned stays as it is.
//
// Close does not wait. If the process where the value lies can't be reached, the value
// goes when no process has it any more. When called a second time, Close is a no-op.
func (s *Shared[T]) Close() {
	if h := used(s); h != nil {
		h.proc.shared.withdraw(h.ref)
		h.proc.objects.Withdraw(h.ref, max(lastWords, h.proc.node.Config.HeartbeatTimeout))
		runtime.KeepAlive(s)
	}
}

// MarshalBinary encodes a reference to the value, which does not keep it alive; see
// Proxy.MarshalBinary.
func (s *Shared[T]) MarshalBinary() ([]byte, error) {
	if h := used(s); h != nil {
		h.proc.objects.Travels(h.ref)
	}
	return marshalProxy(s)
}

// UnmarshalBinary attaches to the value that a reference names.
func (s *Shared[T]) UnmarshalBinary(b []byte) error { return unmarshalProxy(s, b) }

func (s *Shared[T]) held() (*proxy, string) {
	if s == nil {
		return nil, "Shared"
	}
	return &s.p, "Shared"
}

// sharedCache holds the decoded shared values of a process.
type sharedCache struct {
	mu     sync.Mutex
	values map[object.Ref]*sharedValue
	uses   list.List // of references; the one that was used last is in front
	bytes  int64     // that have come as messages
}

type sharedValue struct {
	drop   func() // ends the watch
	use    *list.Element
	copy   object.Copy
	size   int64 // that has come as messages
	mapped int64

	fetching lock.Lock // guards what follows
	set      bool
	value    any
}

// at returns the cache's entry for a value. It is forgotten when the
// value is dropped, its home is out of reach, or others need the room. It does not
// keep the value alive, and outlives the references here: the next task may bring
// another one.
func (s *sharedCache) at(h *object.Server, ref object.Ref) *sharedValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.values[ref]
	if c == nil {
		c = &sharedValue{use: s.uses.PushFront(ref)}
		added := c
		c.drop = h.Watch(ref, func(*object.Request) { s.forget(ref, added) })
		if s.values == nil {
			s.values = map[object.Ref]*sharedValue{}
		}
		s.values[ref] = c
	}
	s.uses.MoveToFront(c.use)
	return c
}

// grow counts what an entry takes up. If the values then have more than limit, those that were used longest ago are forgotten; 0
// is no limit.
func (s *sharedCache) grow(ref object.Ref, c *sharedValue, got object.Copy, limit int64) {
	s.mu.Lock()
	if s.values[ref] != c { // it was forgotten meanwhile
		s.mu.Unlock()
		got.Drop()
		return
	}
	if size := int64(codec.Size(got.Frames)); got.Mapped {
		c.mapped = size
	} else {
		c.size = size
		s.bytes += size
	}
	got.Frames = nil
	c.copy = got
	old := map[object.Ref]*sharedValue{}
	left := s.bytes
	for e := s.uses.Back(); limit > 0 && left > limit && e != nil; e = e.Prev() {
		other := e.Value.(object.Ref)
		if o := s.values[other]; o != c && o.size > 0 {
			old[other] = o
			left -= o.size
		}
	}
	s.mu.Unlock()
	for ref, c := range old {
		s.forget(ref, c)
	}
}

// size returns how many bytes of shared values this process has.
func (s *sharedCache) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes + shm.Mapped()
}

// withdraw forgets a value.
func (s *sharedCache) withdraw(ref object.Ref) {
	s.mu.Lock()
	c := s.values[ref]
	s.mu.Unlock()
	if c != nil {
		s.forget(ref, c)
	}
}

// forget takes an entry out of the cache, if it is still there.
func (s *sharedCache) forget(ref object.Ref, c *sharedValue) {
	s.mu.Lock()
	there := s.values[ref] == c
	if there {
		delete(s.values, ref)
		s.uses.Remove(c.use)
		s.bytes -= c.size
	}
	s.mu.Unlock()
	if there {
		c.drop()
		c.copy.Drop()
		shm.Unused(c.mapped)
	}
}
