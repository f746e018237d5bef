package image

import "sync"

// Once prepares the image of each executable once, however many jobs want it at the same time. What a T has besides the
// image's name is the backend's. The zero value is ready to use.
type Once[T any] struct {
	mu    sync.Mutex // held while one is prepared
	ready map[string]T
}

// Do returns what prepare has returned for an executable. After an error the next one tries again.
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

// Forget has all of them prepared once more: somebody has removed one.
func (o *Once[T]) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.ready)
}
