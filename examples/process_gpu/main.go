// Command process_gpu multiplies two matrices in a process with a GPU of its
// own.
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

// factors are the process's argument.
type factors struct{ X, Y matrix }

// multiply returns the product. Fiber lends devices to a process by setting
// CUDA_VISIBLE_DEVICES: CUDA libraries in it, and programs that it starts, see
// only these. The multiplication itself is plain Go here, so that it runs
// anywhere.
var multiply = fiber.Register("multiply", func(ctx context.Context, f factors) (matrix, error) {
	fmt.Printf("%s has devices %q\n", fiber.CurrentProcess().Name(), os.Getenv("CUDA_VISIBLE_DEVICES"))
	return product(f.X, f.Y)
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
	z, err := fiber.Go(ctx, multiply, factors{matrix{{1, 2}, {3, 4}}, matrix{{5, 6}, {7, 8}}}, opts...).Get(ctx)
	if err != nil {
		return err
	}
	fmt.Println("Product", z)
	return nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Process_gpu multiplies two matrices in a process with a GPU of its own, if
there is one.

	go run ./examples/process_gpu
`)
	flag.PrintDefaults()
}
