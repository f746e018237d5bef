package fiber_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

// A mistake is an error that says where it is and what is allowed.
func ExampleConfig() {
	// The tests' TestMain has called Init.
	fiber.Shutdown(context.Background())
	defer fiber.Init()

	err := fiber.Init(fiber.Config{HeartbeatTimeout: 10}) // nanoseconds
	fmt.Println(err)

	err = fiber.Init(fiber.Config{HeartbeatTimeout: 10 * time.Second, MaxMessage: 64 * fiber.MiB, ForwardLogs: fiber.Off})
	fmt.Println(err)
	fiber.Shutdown(context.Background())
	// Output:
	// fiber: code, Config.HeartbeatTimeout: heartbeat_timeout = "10ns" is too short; allowed: a duration of at least 1ms, such as 500ms, 10s or 1m30s
	// <nil>
}
