// Command build is built in several ways by the tests of build_test.go.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

// build is set by the linker.
var build = "one"

var version = fiber.Register("version", func(context.Context, struct{}) (string, error) { return build, nil })

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	v, err := fiber.Apply(ctx, pool, version, struct{}{})
	p := fiber.NewProcess(version, struct{}{})
	if err2 := p.Start(ctx); err2 != nil {
		err = errors.Join(err, err2)
	} else if err2 := p.Join(ctx); err2 != nil {
		err = errors.Join(err, err2)
	}
	var mismatch *fiber.MismatchError
	var launch *fiber.LaunchError
	fmt.Printf("version %q, mismatch %v, launch %v\n", v, errors.As(err, &mismatch), errors.As(err, &launch))
	return err
}
