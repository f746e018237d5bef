//go:build changed

package main

import (
	"context"

	"github.com/fiber-go/fiber"
)

var _ = fiber.Register("double", func(_ context.Context, x int) (string, error) { return "", nil })
