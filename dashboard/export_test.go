package dashboard

import "github.com/fiber-go/fiber/internal/observe"

// Settings and Start are for tests.
type Settings = observe.Settings

var Start = start
