// Command torch_ring runs PyTorch's DistributedDataParallel in a ring: each
// rank starts a Python process, which finds the others by the environment of
// TorchEnv.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var (
	ranks  = flag.Int("ranks", 2, "processes that train together")
	steps  = flag.Int("steps", 100, "steps of the training")
	python = flag.String("python", "/usr/bin/python3", "the Python to run, with PyTorch installed")
)

//go:embed ddp.py
var script string

// training is the argument of every rank.
type training struct {
	Python string
	Steps  int
}

// train runs in each rank. When another rank fails, ctx ends, and the Python
// process with it.
var train = fiber.RegisterRing("train", nil, func(ctx context.Context, node *fiber.RingNode, t training) error {
	cmd := exec.CommandContext(ctx, t.Python, "-c", script, strconv.Itoa(t.Steps))
	cmd.Env = append(os.Environ(), node.TorchEnv()...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the script of rank %d: %w", node.Rank(), err)
	}
	return nil
}, meta.CPU(1))

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("torch_ring takes only flags, not %q; -h lists them", flag.Args())
	}
	if err := exec.CommandContext(ctx, *python, "-c", "import torch").Run(); err != nil {
		return errors.New(*python + " has no PyTorch: apt-get install python3-torch (Debian), pip install torch, or name another one with -python")
	}
	return fiber.NewRing(*ranks, train).Run(ctx, training{*python, *steps})
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Torch_ring trains a model with PyTorch's DistributedDataParallel, one process
in each rank of a ring.

	go run ./examples/torch_ring -ranks 4

Flags:
`)
	flag.PrintDefaults()
}
