package fiber

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/launch"
	"github.com/fiber-go/fiber/internal/wire"
)

// handle is this process's use of an object of the run: what queues, pipes and
// proxies have in common. The object lives as long as a handle is reachable
// somewhere. A copy of the value that has it shares it.
type handle struct {
	proc *process
	ref  home.Ref
}

// attach holds an object.
func (p *process) attach(ref home.Ref) *handle {
	p.home.Hold(ref)
	h := &handle{p, ref}
	runtime.AddCleanup(h, func(ref home.Ref) { p.home.Release(ref) }, ref)
	return h
}

// errEmptyHandle is what a zero SimpleQueue, Proxy and so on gives.
var errEmptyHandle = errors.New("fiber: it was not made by its constructor, nor did it travel here")

// call sends a request; see home.Home.Call.
func (h *handle) call(ctx context.Context, what string, op byte, args []byte, value [][]byte, late func(home.Answer)) (home.Answer, error) {
	if h == nil {
		return home.Answer{}, errEmptyHandle
	}
	a, err := h.proc.home.Call(ctx, h.ref, op, args, value, late)
	runtime.KeepAlive(h)
	if err != nil {
		return a, objectError(what, err)
	}
	return a, nil
}

// objectError is an error of a home as a user sees it.
func objectError(what string, err error) error {
	var refusal *home.Refusal
	var lost *home.LostError
	switch {
	case errors.Is(err, home.ErrGone), errors.Is(err, home.ErrEnded):
		return fmt.Errorf("fiber: %s has ended: %w", what, ErrClosed)
	case errors.Is(err, launch.ErrShutdown):
		return err
	case errors.As(err, &lost):
		return lostError(what, lost)
	case errors.As(err, &refusal) && refusal.Code == home.Unknown:
		return &MismatchError{Reason: refusal.Text}
	case errors.As(err, &refusal) && refusal.Code == home.TooLarge:
		return fmt.Errorf("fiber: what %s has: %s; %s", what, refusal.Text, whatToDo)
	}
	return fromEngine(err)
}

// transit is how long a process keeps an object alive whose name it has sent
// to another one, which says itself that it holds the object when it has got
// the name.
const transit = 30 * time.Second

var inTransit struct {
	sync.Mutex
	handles []sent
}

type sent struct {
	h     *handle
	until time.Time
}

// depart keeps a handle for a while.
func (h *handle) depart() {
	t := &inTransit
	t.Lock()
	defer t.Unlock()
	if len(t.handles) == 0 {
		time.AfterFunc(transit, arrive)
	}
	t.handles = append(t.handles, sent{h, time.Now().Add(transit)})
}

// arrive lets go of the handles whose time is over.
func arrive() {
	t := &inTransit
	t.Lock()
	defer t.Unlock()
	now, n := time.Now(), 0
	for n < len(t.handles) && !t.handles[n].until.After(now) {
		n++
	}
	t.handles = append([]sent(nil), t.handles[n:]...)
	if len(t.handles) > 0 {
		time.AfterFunc(max(time.Until(t.handles[0].until), time.Second), arrive)
	}
}

// marshal gives the name of the handle's object, with more behind it.
func (h *handle) marshal(more ...byte) ([]byte, error) {
	if h == nil {
		return nil, errEmptyHandle
	}
	h.depart()
	b := make([]byte, 0, len(h.ref.Endpoint)+len(h.ref.Process)+16+len(more))
	return append(appendRef(b, h.ref), more...), nil
}

// unmarshal attaches to the object whose name marshal gave.
func unmarshalHandle(b []byte) (h *handle, more []byte, err error) {
	r := wire.Reader{B: b}
	ref := readRef(&r)
	if r.Err != nil {
		return nil, nil, r.Err
	}
	p, err := running()
	if err != nil {
		return nil, nil, err
	}
	return p.attach(ref), r.B, nil
}

func appendRef(b []byte, ref home.Ref) []byte {
	b = wire.AppendString(b, ref.Endpoint)
	b = wire.AppendString(b, ref.Process)
	b = binary.AppendUvarint(b, uint64(ref.PID))
	return binary.AppendUvarint(b, ref.Object)
}

func readRef(r *wire.Reader) home.Ref {
	return home.Ref{Endpoint: r.String(), Process: r.String(), PID: r.Int(), Object: r.Uvarint()}
}

// Travels tells what has to know that the handle's value is sent.
func (h *handle) Travels() []any {
	if h == nil {
		return nil
	}
	return []any{h}
}

// reference names the handle's object.
func (h *handle) reference() home.Ref { return h.ref }

// encode encodes a value that another process is to keep, with the names of
// the objects in it.
func encode(what string, v any) (home.Value, error) {
	frames, travellers, err := codec.MarshalTravellers(v)
	if err != nil {
		return home.Value{}, fmt.Errorf("fiber: %s: %w", what, err)
	}
	value := home.Value{Frames: frames}
	for _, t := range travellers {
		if t, ok := t.(interface{ reference() home.Ref }); ok {
			value.Refs = append(value.Refs, t.reference())
		}
	}
	return value, nil
}

// fitsValue says whether a value, and what there is to say of it, is within
// the size of a message.
func (p *process) fitsValue(v home.Value) error {
	return p.fitsSize(v.Size())
}

// forgetTransit lets go of all handles at a Shutdown.
func forgetTransit() {
	inTransit.Lock()
	defer inTransit.Unlock()
	inTransit.handles = nil
}
