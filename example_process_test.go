package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var introduce = fiber.Register("introduce", func(ctx context.Context, guest string) (struct{}, error) {
	fmt.Printf("%s, this is %s, a child of %s\n", guest, fiber.CurrentProcess().Name(), fiber.ParentProcess().Name())
	return struct{}{}, nil
})

func ExampleProcess() {
	ctx := context.Background()
	p := fiber.NewProcess(introduce, "Gopher", fiber.ProcessName("Worker Bee"))
	fmt.Println(p.Alive(), p.ID() == "")

	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Join(ctx); err != nil { // what it has printed is here by then
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
