// Command process_gpu starts a process with a GPU of its own, sends it two
// matrices through a queue, and gets their product back through another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// matrix is a matrix as its rows.
type matrix [][]float64

// bench is the process's argument: the queues between it and the root.
type bench struct {
	Factors  *fiber.SimpleQueue[matrix]
	Products *fiber.SimpleQueue[matrix]
}

// multiply gets two matrices and puts their product. Fiber lends devices to a
// process by setting CUDA_VISIBLE_DEVICES: CUDA libraries in it, and programs
// that it starts, see only these. The multiplication itself is plain Go here,
// so that it runs anywhere.
var multiply = fiber.Register("multiply", func(ctx context.Context, b bench) (struct{}, error) {
	fmt.Printf("%s has devices %q\n", fiber.CurrentProcess().Name(), os.Getenv("CUDA_VISIBLE_DEVICES"))
	x, err := b.Factors.Get(ctx)
	if err != nil {
		return struct{}{}, err
	}
	y, err := b.Factors.Get(ctx)
	if err != nil {
		return struct{}{}, err
	}
	z, err := product(x, y)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, b.Products.Put(ctx, z)
})

// product returns x times y.
func product(x, y matrix) (matrix, error) {
	for _, m := range []matrix{x, y} {
		for _, row := range m {
			if len(row) != len(m[0]) {
				return nil, errors.New("a matrix has rows of different lengths")
			}
		}
	}
	if len(x) == 0 || len(y) == 0 || len(x[0]) != len(y) {
		return nil, fmt.Errorf("a matrix of %d rows cannot be multiplied by one of %d", len(x), len(y))
	}
	z := make(matrix, len(x))
	for i := range z {
		z[i] = make([]float64, len(y[0]))
		for k, xik := range x[i] {
			for j, ykj := range y[k] {
				z[i][j] += xik * ykj
			}
		}
	}
	return z, nil
}

// devices lists the GPUs of this machine that the program may use: those in
// CUDA_VISIBLE_DEVICES or, if that is not set, all that the NVIDIA driver
// shows. GPUs of other machines, as a cluster has, are not found.
func devices() []string {
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		return slices.DeleteFunc(strings.Split(visible, ","), func(d string) bool { return d == "" || d == "-1" })
	}
	cards, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
	return cards
}

// multiplyElsewhere multiplies in another process. It returns the product and
// the process.
func multiplyElsewhere(ctx context.Context, x, y matrix, opts ...fiber.ProcessOption) (matrix, *fiber.Process, error) {
	b := bench{}
	for _, q := range []**fiber.SimpleQueue[matrix]{&b.Factors, &b.Products} {
		var err error
		if *q, err = fiber.NewSimpleQueue[matrix](); err != nil {
			return nil, nil, err
		}
		defer (*q).Close()
	}
	p := fiber.NewProcess(multiply, b, opts...)
	if err := p.Start(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.Factors.PutMany(ctx, []matrix{x, y}); err != nil {
		return nil, nil, err
	}
	// The process ends when it has put the product, or with an error and no product.
	if err := p.Join(ctx); err != nil {
		return nil, nil, err
	}
	z, err := b.Products.Get(ctx)
	return z, p, err
}

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("process_gpu takes no arguments, not %q; see -h", flag.Args())
	}
	var opts []fiber.ProcessOption
	if n := len(devices()); n > 0 {
		fmt.Printf("There are %d GPUs; the process gets one of its own.\n", n)
		opts = append(opts, fiber.WithMeta(meta.GPU(1)))
	} else {
		fmt.Println("There is no GPU; the process gets none.")
	}
	z, _, err := multiplyElsewhere(ctx, matrix{{1, 2}, {3, 4}}, matrix{{5, 6}, {7, 8}}, opts...)
	if err != nil {
		return err
	}
	fmt.Println("Product", z)
	return nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Process_gpu starts a process with a GPU of its own, if there is one, which
takes two matrices from a queue and puts back their product.

	go run ./examples/process_gpu
`)
	flag.PrintDefaults()
}
