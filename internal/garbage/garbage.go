// Package garbage says what follows when a value of this process has become
// unreachable.
package garbage

import (
	"runtime"

	"github.com/fiber-go/fiber/internal/self"
)

// Then calls f with arg once the garbage collector has found that nothing refers
// to what ptr points to.
//
// All cleanups of a program share the runtime's goroutine for them, so f must not
// block: it takes locks that are held briefly, queues messages, and leaves the rest
// to a goroutine that it starts. Neither arg nor what f captures may refer to what
// ptr points to, also not by way of other values: it would stay reachable for ever.
func Then[T, A any](ptr *T, f func(arg A), arg A) {
	if self.Simulated() == nil {
		runtime.AddCleanup(ptr, f, arg)
	} else {
		runtime.AddCleanup(ptr, func(f func()) { f() }, self.BindGarbage(func() { f(arg) }))
	}
}
