package fiber

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
)

// parcel is what a value names that is, or was, on its way.
type parcel struct {
	handles []*handle
	ends    []*pipeEnd
}

// A user and an ender name objects where they travel.
type ender interface{ pipeEnd() *pipeEnd }

func names(x any) bool {
	switch x.(type) {
	case user, ender:
		return true
	}
	return false
}

// parcelOf makes it of what names objects.
func parcelOf(all []any) (p parcel) {
	for _, x := range all {
		switch x := x.(type) {
		case user:
			if h, _, _ := x.used(); h != nil {
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

// refs names the objects.
func (p parcel) refs() (refs []object.Ref) {
	for _, h := range p.handles {
		refs = append(refs, h.ref)
	}
	for _, e := range p.ends {
		refs = append(refs, e.port.Ref())
	}
	return refs
}

// transit is how long a process keeps an object alive besides whose name it has
// sent to be kept: whoever keeps it may have to find a way to the object's home
// first, which takes seconds where neither can dial the other. Messages of rings,
// which nobody acknowledges, have that time alone.
const transit = 30 * time.Second

// linger keeps the objects for a while, except the ends of pipes, which know
// themselves whether they have arrived.
func (p parcel) linger() {
	if handles := p.handles; len(handles) > 0 {
		time.AfterFunc(transit, func() { runtime.KeepAlive(handles) })
	}
}

// marshalHere encodes a value that is not about to be sent yet.
func marshalHere(v any) ([][]byte, parcel, error) {
	frames, all, err := codec.MarshalListing(v, names)
	return frames, parcelOf(all), err
}

// marshal encodes a value that is about to be sent: the ends of pipes in it are
// handed over. The parcel is what has to be kept until the value has arrived.
func marshal(v any) ([][]byte, parcel, error) {
	frames, p, err := marshalHere(v)
	if err != nil {
		return nil, parcel{}, err
	}
	return frames, p, departing(p.ends).depart()
}

// marshalNamed is marshal with nil for a parcel that is empty.
func marshalNamed(v any) (frames [][]byte, named any, err error) {
	frames, p, err := marshal(v)
	if len(p.handles)+len(p.ends) > 0 {
		named = p
	}
	return frames, named, err
}

// marshalLingering is marshal for what the receiver may keep.
func marshalLingering(v any) ([][]byte, error) {
	frames, p, err := marshal(v)
	p.linger()
	return frames, err
}

// encode encodes a value that another process is to keep, with the names of
// the objects in it.
func encode(what string, v any) (object.Value, error) {
	frames, p, err := marshal(v)
	if err != nil {
		return object.Value{}, errorf("fiber: %s: %w", what, err)
	}
	p.linger()
	value := object.Value{Frames: frames, Refs: p.refs()}
	if len(value.Refs) > 0 {
		value.Keep = p
	}
	return value, nil
}

// encodeAll encodes many values.
func encodeAll[T any](what string, vs []T) ([]object.Value, error) {
	values := make([]object.Value, len(vs))
	for i, v := range vs {
		var err error
		if values[i], err = encode(fmt.Sprintf("%s %d", what, i), v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// unmarshal decodes a value that has come, and returns what it names.
func unmarshal(frames [][]byte, ptr any) (came parcel, err error) {
	all, err := codec.UnmarshalListing(frames, ptr, names)
	return parcelOf(all), err
}

// add puts another parcel into this one.
func (p *parcel) add(q parcel) {
	p.handles, p.ends = append(p.handles, q.handles...), append(p.ends, q.ends...)
}

// known waits until the homes of a parcel's ends know that this process claims
// them, as long as ctx lasts. Until they do it must not be said that the value
// has arrived: if the process died, nobody would hear that the ends are gone.
func (p parcel) known(ctx context.Context) bool {
	for _, e := range p.ends {
		if !e.port.Known(ctx) {
			return false
		}
	}
	return true
}

// then says that the value has arrived, when all homes know that this process
// holds what it names; when ctx ends first that is left to a goroutine.
func (p parcel) then(ctx context.Context, say func() error) error {
	if !p.known(ctx) {
		go func() {
			p.known(context.Background())
			p.then(context.Background(), say)
		}()
		return nil
	}
	if len(p.handles) == 0 {
		return say()
	}
	said := make(chan error, 1)
	p.handles[0].proc.home.WhenHeld(func() { said <- say() })
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return nil
	}
}

// decodeArgument decodes what a function is to be called with.
func decodeArgument(ctx context.Context, frames [][]byte, arg any) error {
	came, err := unmarshal(frames, arg)
	if err == nil && !came.known(ctx) {
		err = context.Cause(ctx)
	}
	return err
}

// travels checks that values of a type can.
func travels[T any](constructor, what string) error {
	if err := codec.Check(reflect.TypeFor[T]()); err != nil {
		return fmt.Errorf("fiber: %s: %s: %w", constructor, what, err)
	}
	return nil
}
