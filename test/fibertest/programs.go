//go:build unix

package fibertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
)

// Programs that tests of several packages start.

// A program with children of all sorts: workers that are busy, heedlessly
// busy and idle, a process, and a process's process.
var _ = MainProgram("family", func(ctx context.Context) error {
	pool, err := fiber.NewPool(3)
	if err != nil {
		return err
	}
	defer pool.Terminate()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	heedless := fiber.ApplyAsync(ctx, pool, Nap, time.Hour)
	fiber.ApplyAsync(ctx, pool, Rest, time.Hour)
	p := fiber.NewProcess(Parenting, time.Hour)
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	_, err = heedless.Get(ctx)
	return err
})

// A program that goes on when it is told to end.
var _ = MainProgram("stubborn", func(ctx context.Context) error {
	p := fiber.NewProcess(Nap, time.Hour)
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	<-ctx.Done()
	fmt.Println("told")
	time.Sleep(time.Hour)
	return nil
})

var _ = MainProgram("fine", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	squares, err := fiber.Map(ctx, pool, Square, Numbers(100))
	if err != nil {
		return err
	}
	fmt.Println("squares", len(squares), squares[99])
	return nil
})

// Speaking writes, and goes on when a file is there.
type Speaking struct{ First, Wait, Second string }

// Speak does that.
var Speak = fiber.Register("speak", func(ctx context.Context, s Speaking) (None, error) {
	fmt.Println(s.First)
	if err := Await(ctx, s.Wait); err != nil {
		return None{}, err
	}
	fmt.Fprintln(os.Stderr, s.Second)
	return None{}, nil
})

var _ = MainProgram("talkative", func(ctx context.Context) error {
	p := fiber.NewProcess(Speak, Speaking{First: "from stdout", Second: "from stderr"})
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.Join(ctx); err != nil {
		return err
	}
	logs, err := p.Logs(ctx)
	if err != nil {
		return err
	}
	all, err := io.ReadAll(logs)
	fmt.Println("kept", len(all))
	return err
})

// beneath starts a process that has a pool, and gives what came of it.
var beneath = fiber.Register("beneath", func(ctx context.Context, _ None) (None, error) {
	p := fiber.NewProcess(bottom, None{})
	if err := p.Start(ctx); err != nil {
		return None{}, err
	}
	return None{}, p.Join(ctx)
})

var bottom = fiber.Register("bottom", func(ctx context.Context, _ None) (None, error) {
	pool, err := fiber.NewPool(2, fiber.WithMaxAttempts(1))
	if err != nil {
		return None{}, err
	}
	defer pool.Close()
	squares, err := fiber.Map(ctx, pool, Square, Numbers(100))
	if err != nil || squares[99] != 99*99 {
		return None{}, fmt.Errorf("squares %v: %w", squares, err)
	}
	if _, err := fiber.Apply(ctx, pool, Die, int(syscall.SIGKILL)); !errors.As(err, new(*fiber.WorkerLostError)) ||
		!strings.Contains(fmt.Sprintf("%+v", err), "last words") {
		return None{}, fmt.Errorf("a worker that is lost: %w", err)
	}
	return None{}, nil
})

var _ = MainProgram("nested ships", func(ctx context.Context) error {
	p := fiber.NewProcess(beneath, None{})
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.Join(ctx)
})

var _ = MainProgram("hungry", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2, fiber.WithMaxAttempts(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	meals := fiber.MapAsync(ctx, pool, Hog, []int{1, 2, 3, 4, 5, 6})
	_, err = fiber.Apply(ctx, pool, Hog, 2000)
	var lost *fiber.WorkerLostError
	if !errors.As(err, &lost) || !lost.OOM || !strings.Contains(err.Error(), "OOMKilled") || !strings.Contains(err.Error(), "150 MiB") {
		return fmt.Errorf("too much memory: %w", err)
	}
	_, err = meals.Get(ctx)
	return err
})
