package image

import (
	"context"

	"github.com/fiber-go/fiber/internal/lock"
)

// Once prepares the image of each executable once, however many jobs want it at the same time. T is the backend's description
// of a prepared image. The zero value is ready to use.
type Once[T any] struct {
	preparing lock.Lock
	ready     map[string]T
}

// Do returns the result of prepare for an executable. It blocks while another caller's image is prepared, or until ctx ends.
// After an error, which may be that of the other caller's own context, the next caller prepares the image.
func (o *Once[T]) Do(ctx context.Context, executable string, prepare func() (T, error)) (T, error) {
	if err := o.preparing.Lock(ctx); err != nil {
		return *new(T), err
	}
	defer o.preparing.Unlock()
	if img, ok := o.ready[executable]; ok {
		return img, nil
	}
	img, err := prepare()
	if err != nil {
		return img, err
	}
	if o.ready == nil {
		o.ready = map[string]T{}
	}
	o.ready[executable] = img
	return img, nil
}

// Forget forgets all images, which are then prepared again: one of them has been removed. It waits as Do does.
func (o *Once[T]) Forget(ctx context.Context) error {
	if err := o.preparing.Lock(ctx); err != nil {
		return err
	}
	defer o.preparing.Unlock()
	clear(o.ready)
	return nil
}
