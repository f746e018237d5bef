package fiber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
)

// parcel holds what a value refers to that is, or was, on its way.
type parcel struct {
	handles []*handle
	ends    departing
}

// A user or an ender travels as a reference to an object.
type ender interface{ pipeEnd() *pipeEnd }

func names(x any) bool {
	switch x.(type) {
	case user, ender:
		return true
	}
	return false
}

// parcelOf makes a parcel of users and enders.
func parcelOf(all []any) (p parcel) {
	for _, x := range all {
		switch x := x.(type) {
		case user:
			if h := x.used(); h != nil {
				p.handles = append(p.handles, h)
			}
		case ender:
			if e := x.pipeEnd(); e != nil {
				p.ends = append(p.ends, e)
			}
		}
	}
	return p
}

// refs returns references to the objects.
func (p parcel) refs() (refs []object.Ref) {
	for _, h := range p.handles {
		refs = append(refs, h.ref)
	}
	for _, e := range p.ends {
		refs = append(refs, e.port.Ref())
	}
	return refs
}

// transit is how much longer a process keeps an object alive when it has sent a
// reference that the receiver may keep: the receiver may first have to find a
// way to the object's home, which takes seconds if neither can dial the other.
// Messages of rings are not acknowledged and have only that time.
const transit = 30 * time.Second

// linger keeps what a value names for a while.
func linger(named any) {
	if named != nil {
		time.AfterFunc(transit, func() { runtime.KeepAlive(named) })
	}
}

// marshalNow encodes a value that is not sent yet. If an end of a pipe in it is
// still on its way here, the error is a *comingError.
func marshalNow(v any) ([][]byte, parcel, error) {
	frames, all, err := codec.MarshalListing(reflect.ValueOf(v), names)
	return frames, parcelOf(all), err
}

// marshalHere is marshalNow, but waits until the ends of pipes have come, or ctx
// ends.
func marshalHere(ctx context.Context, v any) ([][]byte, parcel, error) {
	for {
		frames, p, err := marshalNow(v)
		coming := (*comingError)(nil)
		if !errors.As(err, &coming) {
			return frames, p, err
		}
		if err := coming.port.Claimed(ctx); err != nil {
			return nil, parcel{}, pipeError(err)
		}
	}
}

// marshal encodes a value that is about to be sent, and hands over the ends of
// pipes in it. What the value names, nil if nothing, has to be kept until the
// value has arrived. For ctx, see marshalHere.
func marshal(ctx context.Context, v any) (frames [][]byte, named any, err error) {
	frames, p, err := marshalHere(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	if len(p.handles)+len(p.ends) > 0 {
		named = p
	}
	return frames, named, p.ends.depart()
}

// marshalLingering is marshal for a value that the receiver may keep.
func marshalLingering(ctx context.Context, v any) ([][]byte, error) {
	frames, named, err := marshal(ctx, v)
	linger(named)
	return frames, err
}

// encode encodes a value for another process to keep, with references to the
// objects in it. For ctx, see marshalHere.
func encode(ctx context.Context, what string, v any) (object.Value, error) {
	frames, p, err := marshalHere(ctx, v)
	value := object.Encoded(frames, p.refs()...)
	if proc := current.Load(); err == nil && proc != nil {
		err = proc.fitsSize(value.Size())
	}
	if err == nil {
		err = p.ends.depart() // only now, since what does not fit is not sent
	}
	switch {
	case err == nil:
	case err == ctx.Err():
		return object.Value{}, err
	default:
		return object.Value{}, errorf("fiber: %s: %w", what, err)
	}
	if len(value.Refs) > 0 {
		value.Keep = p
	}
	linger(value.Keep)
	return value, nil
}

// encodeAll encodes many values.
func encodeAll[T any](ctx context.Context, what string, vs []T) ([]object.Value, error) {
	values := make([]object.Value, len(vs))
	for i, v := range vs {
		var err error
		if values[i], err = encode(ctx, what, v); err != nil {
			return nil, errorf("fiber: at index %d: %w", i, err)
		}
	}
	return values, nil
}

// unmarshal decodes a value that has arrived, and returns what it refers to.
func unmarshal(frames [][]byte, ptr any) (came parcel, err error) {
	all, err := codec.UnmarshalListing(frames, ptr, names)
	return parcelOf(all), err
}

// add puts another parcel into this one.
func (p *parcel) add(q parcel) {
	p.handles, p.ends = append(p.handles, q.handles...), append(p.ends, q.ends...)
}

// known waits until the homes of a parcel's ends know that this process claims
// them, or until ctx ends, and then returns false. Before they know, the value
// must not be acknowledged: if this process died, the other ends would not
// learn of it.
func (p parcel) known(ctx context.Context) bool {
	for _, e := range p.ends {
		if !e.port.Known(ctx) {
			return false
		}
	}
	return true
}

// then calls say, which acknowledges the value, when all homes know that this
// process holds what the value refers to. If ctx ends first, a goroutine does
// so.
func (p parcel) then(ctx context.Context, say func(context.Context) error) error {
	if !p.known(ctx) {
		go p.then(context.Background(), say)
		return nil
	}
	if len(p.handles) == 0 {
		return say(ctx)
	}
	said := make(chan error, 1)
	p.handles[0].proc.home.WhenHeld(func() { said <- say(context.Background()) })
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return nil
	}
}

// decodeArgument decodes a function's argument.
func decodeArgument(ctx context.Context, frames [][]byte, arg any) error {
	came, err := unmarshal(frames, arg)
	if err == nil && !came.known(ctx) {
		err = context.Cause(ctx)
	}
	return err
}

// travels checks that values of a type can travel.
func travels[T any](constructor, what string) error {
	if _, err := codec.Signature(reflect.TypeFor[T]()); err != nil {
		return fmt.Errorf("fiber: %s: %s: %w", constructor, what, err)
	}
	return nil
}
