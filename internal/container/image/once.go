package image

import "sync"

// Once prepares the image of each executable once, however many jobs want it at the same time. T is the backend's description
// of a prepared image. The zero value is ready to use.
type Once[T any] struct {
	mu    sync.Mutex // held while one is prepared
	ready map[string]T
}

// Do returns the result of prepare for an executable, and blocks while another image is prepared. After an error the next
// call tries again.
func (o *Once[T]) Do(executable string, prepare func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// Forget forgets all images, which are then prepared again: one of them has been removed.
func (o *Once[T]) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.ready)
}
