//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// echoBytes is the size of both bodies: ten million bytes, or 1.25 million float64.
const echoBytes = 10_000_000

var (
	sameBytes  = fiber.Register("bench.sameBytes", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }, meta.CPU(1))
	sameFloats = fiber.Register("bench.sameFloats", func(_ context.Context, xs []float64) ([]float64, error) { return xs, nil }, meta.CPU(1))
)

var echoRows = []row{
	{name: "echo/10MB-bytes", unit: duration, pairs: 15, open: func(ctx context.Context, m *match) error {
		body := make([]byte, echoBytes)
		for i := range body {
			body[i] = byte(i % 251)
		}
		return openEcho(ctx, m, 0.7, sameBytes, body, bytes.Equal, fmt.Sprint("echo_bytes ", len(body)))
	}},
	{name: "echo/1.25M-float64", unit: duration, pairs: 15, open: func(ctx context.Context, m *match) error {
		body := make([]float64, echoBytes/8)
		for i := range body {
			body[i] = float64(i) / 3
		}
		return openEcho(ctx, m, 1, sameFloats, body, slices.Equal[[]float64], fmt.Sprint("echo_floats ", len(body)))
	}},
}

// openEcho measures Apply of a large body that comes back unchanged against as
// many bytes over a bare socket, which takes longer: Apply must take that many times of it.
func openEcho[T ~[]E, E any](ctx context.Context, m *match, most float64, fn *fiber.Func[T, T], body T, equal func(a, b T) bool, command string) error {
	pool, err := warmPool(ctx, m, 1, func(ctx context.Context, pool *fiber.Pool) error {
		out, err := fiber.Apply(ctx, pool, fn, body)
		if err == nil && !equal(out, body) {
			err = fmt.Errorf("the body came back changed")
		}
		return err
	})
	if err != nil {
		return err
	}
	m.subject = contender{name: "Apply", run: timed(func(ctx context.Context, n int) error {
		for range n {
			out, err := fiber.Apply(ctx, pool, fn, body)
			if err != nil {
				return err
			}
			if len(out) != len(body) {
				return fmt.Errorf("%d elements came back of %d", len(out), len(body))
			}
		}
		return nil
	})}
	raw, err := rawEcho(m, echoBytes)
	if err != nil {
		return err
	}
	python := multiprocessing(forInformation, 0, command)
	m.references = []reference{{contender: raw, bound: atMost(most)}, python}
	return nil
}
