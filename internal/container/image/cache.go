package image

import (
	"context"

	"github.com/fiber-go/fiber/internal/lock"
)

// Cache holds the prepared image of each executable. Each is prepared once, however many jobs want it at the same time. T is
// the backend's description of a prepared image. The zero value is ready to use.
type Cache[T any] struct {
	preparing lock.Lock
	ready     map[string]T
}

// Do returns the result of prepare for an executable. It blocks while another caller's image is prepared, or until ctx ends.
// After an error, which may be that of the other caller's own context, the next caller prepares the image.
func (c *Cache[T]) Do(ctx context.Context, executable string, prepare func() (T, error)) (T, error) {
	if err := c.preparing.Lock(ctx); err != nil {
		return *new(T), err
	}
	defer c.preparing.Unlock()
	if img, ok := c.ready[executable]; ok {
		return img, nil
	}
	img, err := prepare()
	if err != nil {
		return img, err
	}
	if c.ready == nil {
		c.ready = map[string]T{}
	}
	c.ready[executable] = img
	return img, nil
}

// Forget forgets all images, which are then prepared again: one of them has been removed. It waits as Do does.
func (c *Cache[T]) Forget(ctx context.Context) error {
	if err := c.preparing.Lock(ctx); err != nil {
		return err
	}
	defer c.preparing.Unlock()
	clear(c.ready)
	return nil
}
