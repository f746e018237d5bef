package fiber

import (
	"context"
	"errors"
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
			if h := used(x); h != nil && (len(p.handles) == 0 || h != p.handles[len(p.handles)-1]) { // most often all are one
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
		if again, err := come(ctx, err); !again {
			return frames, p, err
		}
	}
}

// come looks at an error of encoding. If an end of a pipe is still on its way here,
// come waits for it and returns true, so that the value is encoded again. Otherwise
// it returns the error, or why the end does not come.
func come(ctx context.Context, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	coming := (*comingError)(nil)
	if !errors.As(err, &coming) {
		return false, err
	}
	err = pipeError(coming.port.Claimed(ctx))
	return err == nil, err
}

// marshal encodes a value that is about to be sent, and hands over the ends of
// pipes in it. What the value names, nil if nothing, has to be kept until the
// value has arrived. For ctx, see marshalHere.
func marshal(ctx context.Context, v any) (frames [][]byte, named any, err error) {
	frames, p, err := marshalHere(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	named, err = p.depart()
	return frames, named, err
}

// depart hands over the ends of pipes, and returns the parcel, or nil if it is
// empty.
func (p parcel) depart() (named any, err error) {
	if len(p.handles)+len(p.ends) > 0 {
		named = p
	}
	return named, p.ends.depart()
}

// marshalEach is marshal for a slice of which each value travels alone: failed
// has the errors of those that cannot be encoded, in their order. lo is the index
// of the first. For ctx, see marshalHere.
func marshalEach[T any](ctx context.Context, vs []T, lo int) (frames [][]byte, named any, failed []*codec.Error, err error) {
	for again := true; again; {
		again = false
		var all []any
		if frames, all, failed, err = codec.MarshalEach(reflect.ValueOf(vs), names); err != nil {
			return nil, nil, nil, err
		}
		for _, e := range failed {
			came, _ := come(ctx, e)
			again = again || came
		}
		if !again {
			named, err = parcelOf(all).depart()
		}
	}
	return frames, named, from(lo, failed), err
}

// unmarshalEach is unmarshal for what marshalEach has encoded. Of a value that
// cannot be decoded, what it refers to has come all the same.
func unmarshalEach[T any](frames [][]byte, vs *[]T, lo int) (came parcel, failed []*codec.Error, err error) {
	all, failed, err := codec.UnmarshalEach(frames, vs, names)
	return parcelOf(all), from(lo, failed), err
}

// from counts the indices of errors from lo.
func from(lo int, failed []*codec.Error) []*codec.Error {
	for _, e := range failed {
		e.Index += lo
	}
	return failed
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
	if ctx == nil {
		return object.Value{}, errNilContext
	}
	frames, p, err := marshalHere(ctx, v)
	value := object.Encoded(frames, p.refs()...)
	if proc := here(); err == nil && proc != nil {
		err = proc.fitsSize(value.Size())
	}
	if err == nil {
		err = p.ends.depart() // once it is sure to be sent
	}
	switch {
	case err == nil:
	case err == ctx.Err():
		return object.Value{}, err
	default:
		return object.Value{}, errorf("fiber: %s: %w", what, err)
	}
	if len(value.Refs()) > 0 {
		linger(p)
		value = value.Keeping(p)
	}
	return value, nil
}

// encodeAll encodes many values.
func encodeAll[T any](ctx context.Context, what string, vs []T) ([]object.Value, error) {
	values := make([]object.Value, len(vs))
	for i, v := range vs {
		err := ended(ctx)
		if err != nil {
			return nil, err
		}
		if values[i], err = encode(ctx, what, v); err != nil {
			return nil, errorf("fiber: at index %d: %w", i, err)
		}
	}
	return values, nil
}

// unmarshal decodes a value that has arrived, and returns what it refers to.
func unmarshal(frames [][]byte, ptr any) (came parcel, err error) {
	all, err := codec.UnmarshalListing(frames, ptr, names)
	came = parcelOf(all)
	for _, e := range came.ends {
		e.proc.ends.forget(e.name)
	}
	return came, err
}

// add puts another parcel into this one.
func (p *parcel) add(q parcel) {
	p.handles, p.ends = append(p.handles, q.handles...), append(p.ends, q.ends...)
}

// known waits until the homes of a parcel's ends know that this process claims
// them. It returns false if ctx ends first. The value is acknowledged only after
// that: the other ends then learn of the death of this process.
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
	p.handles[0].proc.objects.WhenHeld(func() { said <- say(context.Background()) })
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
		return errorf("fiber: %s: %s: %w", constructor, what, err)
	}
	return nil
}
