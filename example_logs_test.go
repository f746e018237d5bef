package fiber_test

import (
	"bufio"
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var count = fiber.Register("count", func(ctx context.Context, to int) (struct{}, error) {
	for i := range to {
		fmt.Println(i + 1)
	}
	return struct{}{}, nil
})

// What a process prints is passed on line by line, unless Config.ForwardLogs is
// off, with its name in front, unless Config.LogPrefix is off, as here. It can be
// read as well: without the name, until the process has ended.
func ExampleProcess_Logs() {
	ctx := context.Background()
	p := fiber.NewProcess(count, 2)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Join(ctx); err != nil {
		fmt.Println(err)
		return
	}
	logs, err := p.Logs(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer logs.Close()
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		fmt.Println("in its log:", lines.Text())
	}
	// Output:
	// 1
	// 2
	// in its log: 1
	// in its log: 2
}
