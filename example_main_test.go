package fiber_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// A whole program. In the root Main calls the function; in the processes that
// Fiber starts it does their work instead.
func ExampleMain() {
	fiber.Main(func(ctx context.Context) error {
		fmt.Println("this is printed once, however many processes there are")
		return nil
	}, fiber.Config{HeartbeatTimeout: time.Minute})
}

// box holds several arguments in one value. Only its exported fields travel.
type box struct{ Width, Height, Depth int }

// volume is a package variable, so every process of the program registers the
// function, under the same name.
var volume = fiber.Register("volume", func(ctx context.Context, b box) (int, error) {
	return b.Width * b.Height * b.Depth, nil
}, meta.CPU(1), meta.Memory(500))

func ExampleRegister() {
	fmt.Println(volume.Name(), "needs", volume.Resources())

	// Call runs the function in this process.
	here, err := volume.Call(context.Background(), box{2, 3, 4})
	fmt.Println(here, err)
	// Output:
	// volume needs cpu 1, memory 500 MiB
	// 24 <nil>
}

// The error for a wrong setting says where it is and what is allowed.
func ExampleConfig() {
	// TestMain has called Init.
	fiber.Shutdown(context.Background())
	defer fiber.Init()

	err := fiber.Init(fiber.Config{HeartbeatTimeout: 10}) // 10 nanoseconds
	fmt.Println(err)

	err = fiber.Init(fiber.Config{HeartbeatTimeout: 10 * time.Second, MaxMessage: 64 * fiber.MiB, ForwardLogs: fiber.Off})
	fmt.Println(err)
	fiber.Shutdown(context.Background())
	// Output:
	// fiber: code, Config.HeartbeatTimeout: heartbeat_timeout = "10ns" is not a duration of at least 1ms, such as 500ms, 10s or 1m30s
	// <nil>
}
