package job

import (
	"context"
	"sync"

	"github.com/fiber-go/fiber/internal/lock"
)

// Launches are launches that an engine finishes once it has begun, whether anybody waits for them or not. The zero value has
// none under way.
type Launches struct {
	mu       sync.Mutex
	underWay int
	none     lock.Changes // none is under way any more
}

// Do calls launch and returns its error, or ctx's if ctx ends before. The function launch goes on meanwhile, in the background.
// Whenever Do returns an error, undo is called once launch has returned.
func (l *Launches) Do(ctx context.Context, launch func() error, undo func()) error {
	launched := make(chan error)
	l.begin()
	go func() {
		defer l.end()
		err := launch()
		if err != nil {
			undo()
		}
		select {
		case launched <- err:
		case <-ctx.Done():
			if err == nil {
				undo()
			}
		}
	}()
	select {
	case err := <-launched:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Launches) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay++
}

func (l *Launches) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.underWay--; l.underWay == 0 {
		l.none.Tell()
	}
}

// Wait waits until none is under way, or ctx ends.
func (l *Launches) Wait(ctx context.Context) error {
	l.mu.Lock()
	if l.underWay == 0 {
		l.mu.Unlock()
		return nil
	}
	none := l.none.Next()
	l.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
