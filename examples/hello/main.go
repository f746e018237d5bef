// Command hello starts one process, which says hello, and waits for it.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/fiber-go/fiber"
)

var hello = fiber.Register("hello", func(ctx context.Context, name string) (struct{}, error) {
	me, parent := fiber.CurrentProcess(), fiber.ParentProcess()
	_, err := fmt.Printf("Hello %s! This is %s (pid %d), started by %s (pid %d).\n",
		name, me.Name(), me.PID(), parent.Name(), parent.PID())
	return struct{}{}, err
})

var name = flag.String("name", "Fiber", "`name` to greet")

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("hello takes only flags, not %q; -h lists them", flag.Args())
	}
	if _, err := greet(ctx, *name); err != nil {
		return err
	}
	fmt.Println("Done")
	return nil
}

// greet starts a process that greets name, and returns when that process has
// ended.
func greet(ctx context.Context, name string) (*fiber.Process, error) {
	p := fiber.NewProcess(hello, name)
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return p, p.Join(ctx)
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Hello starts a process that says hello, waits for it, and prints Done.

	go run ./examples/hello -name Gopher

Flags:
`)
	flag.PrintDefaults()
}
