package fiber_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

var introduce = fiber.Register("introduce", func(ctx context.Context, guest string) (struct{}, error) {
	fmt.Printf("%s, this is %s, a child of %s\n", guest, fiber.CurrentProcess().Name(), fiber.ParentProcess().Name())
	return struct{}{}, nil
})

func ExampleProcess() {
	ctx := context.Background()
	p := fiber.NewProcess(introduce, "Gopher", fiber.WithName("Worker Bee"))
	fmt.Println(p.Alive(), p.ID() == "")

	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Join(ctx); err != nil { // its output has arrived by then
		fmt.Println(err)
		return
	}
	code, exited := p.ExitCode()
	fmt.Println(p.Name(), "has ended:", exited, "with exit code", code)
	// Output:
	// false true
	// Gopher, this is Worker Bee, a child of MainProcess
	// Worker Bee has ended: true with exit code 0
}

var leaf = fiber.Register("leaf", func(ctx context.Context, name string) (struct{}, error) {
	fmt.Println(name, "is a child of", fiber.ParentProcess().Name())
	return struct{}{}, nil
})

// branch starts processes of its own, one after another, and waits for each.
var branch = fiber.Register("branch", func(ctx context.Context, leaves []string) (struct{}, error) {
	for _, name := range leaves {
		p := fiber.NewProcess(leaf, name, fiber.WithName(name))
		if err := p.Start(ctx); err != nil {
			return struct{}{}, err
		}
		if err := p.Join(ctx); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

// Every process of a program may start other processes, and use pools.
func ExampleProcess_nested() {
	ctx := context.Background()
	p := fiber.NewProcess(branch, []string{"leaf 1", "leaf 2"}, fiber.WithName("branch"))
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Join(ctx))
	// Output:
	// leaf 1 is a child of branch
	// leaf 2 is a child of branch
	// <nil>
}

var idle = fiber.Register("idle", func(ctx context.Context, _ struct{}) (struct{}, error) {
	<-ctx.Done()
	return struct{}{}, nil
})

func ExampleActiveChildren() {
	ctx := context.Background()
	for _, name := range []string{"left", "right"} {
		p := fiber.NewProcess(idle, struct{}{}, fiber.WithName(name))
		if err := p.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, child := range fiber.ActiveChildren() {
		fmt.Println(child.Name())
		child.Kill()
		<-child.Done()
	}
	fmt.Println(len(fiber.ActiveChildren()), "are left")
	// Output:
	// left
	// right
	// 0 are left
}

// loop runs until its context ends, as Terminate makes it. It then has a second
// for tidying up.
var loop = fiber.Register("loop", func(ctx context.Context, _ struct{}) (struct{}, error) {
	<-ctx.Done()
	return struct{}{}, ctx.Err()
})

func ExampleProcess_Terminate() {
	ctx := context.Background()
	p := fiber.NewProcess(loop, struct{}{})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Terminate(); err != nil {
		fmt.Println(err)
		return
	}
	var exit *fiber.ExitError
	if errors.As(p.Join(ctx), &exit) {
		fmt.Println(exit.Signal, exit.Code)
	}
	// Output: terminated 143
}

var count = fiber.Register("count", func(ctx context.Context, to int) (struct{}, error) {
	for i := range to {
		fmt.Println(i + 1)
	}
	return struct{}{}, nil
})

// The lines that a process prints appear in the output of the root, unless
// Config.ForwardLogs is off. Each has the process's name in front, unless
// Config.LogPrefix is off, as here. Logs reads the same lines, without the name,
// until the process ends.
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
