// Package managed is the manager's side of Fiber's own managed types: what
// they hold, who waits for them, and what becomes of both at a death.
package managed

import (
	"fmt"

	"github.com/fiber-go/fiber/internal/home"
)

// Make makes an object of a kind.
func Make(h *home.Home, kind string, args []byte, values []home.Value) (home.Object, error) {
	return nil, fmt.Errorf("fiber: there are no managed objects of kind %q", kind)
}
