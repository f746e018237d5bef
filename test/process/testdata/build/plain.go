//go:build !changed && !more

package main

import (
	"context"

	"github.com/fiber-go/fiber"
)

var _ = fiber.Register("double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })
