//go:build unix

package fibertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// None is no argument, or no result.
type None struct{}

// Chunks are the options of a call with chunks of a size, or one that adapts for 0.
func Chunks(size int) []fiber.CallOption {
	if size == 0 {
		return nil
	}
	return []fiber.CallOption{fiber.ChunkSize(size)}
}

// The functions that the tests run in other processes.
var (
	Square = fiber.Register("square", func(_ context.Context, x int) (int, error) { return x * x, nil })

	// Getpid returns its process's id: see Self.
	Getpid = fiber.Register("getpid", func(context.Context, None) (int, error) { return Self(), nil })

	// Nap sleeps without looking at its context and returns its process's id.
	Nap = fiber.Register("nap", func(_ context.Context, d time.Duration) (int, error) {
		time.Sleep(d)
		return Self(), nil
	})

	// Rest sleeps until its context ends.
	Rest = fiber.Register("rest", func(ctx context.Context, d time.Duration) (int, error) {
		select {
		case <-time.After(d):
			return Self(), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})

	// Mark appends a line to a file.
	Mark = fiber.Register("mark", func(_ context.Context, m Marking) (int, error) {
		return Self(), m.Append()
	})

	// Exit ends its process with a code.
	Exit = fiber.Register("exit", func(_ context.Context, code int) (None, error) {
		os.Exit(code)
		return None{}, nil
	})

	// Die ends its process by a signal.
	Die = fiber.Register("die", func(_ context.Context, s int) (None, error) {
		fmt.Fprintln(os.Stderr, "last words")
		syscall.Kill(os.Getpid(), syscall.Signal(s))
		select {}
	})
)

var (
	ErrDiverged = fiber.RegisterError(errors.New("diverged"))

	// Fail fails in some way.
	Fail = fiber.Register("fail", func(ctx context.Context, how string) (string, error) {
		switch how {
		case "error":
			return "ignored", errors.New("it is broken")
		case "sentinel":
			return "", fmt.Errorf("at step 7: %w", ErrDiverged)
		case "context":
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return "", fmt.Errorf("own: %w", ctx.Err())
		case "deadline":
			return "", fmt.Errorf("own: %w", context.DeadlineExceeded)
		case "panic":
			panic("help")
		case "panic with an error":
			panic(fmt.Errorf("help: %w", ErrDiverged))
		case "nil pointer":
			var p *Marking
			return p.File, nil
		case "goexit":
			runtime.Goexit()
		case "closed":
			return "", fmt.Errorf("own: %w", fiber.ErrClosed)
		}
		return how, nil
	})
)

// Shrink counts bytes.
var Shrink = fiber.Register("shrink", func(_ context.Context, b []byte) (int, error) { return len(b), nil })

// Heeding writes down that its context has ended, and goes.
var Heeding = fiber.Register("heeding", func(ctx context.Context, file string) (None, error) {
	if err := (Marking{File: file, Line: "up"}).Append(); err != nil {
		return None{}, err
	}
	<-ctx.Done()
	return None{}, Marking{File: file, Line: "heeded"}.Append()
})

// Parenting starts a process of its own that naps, and waits for it.
var Parenting = fiber.Register("parenting", func(ctx context.Context, d time.Duration) (None, error) {
	p := fiber.NewProcess(Nap, d)
	if err := p.Start(ctx); err != nil {
		return None{}, err
	}
	return None{}, p.Join(ctx)
})

var hogged [][]byte

// Hog uses so many MiB, and may use 150.
var Hog = fiber.Register("hog", func(_ context.Context, mib int) (None, error) {
	for range mib {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = byte(i)
		}
		hogged = append(hogged, b)
		time.Sleep(time.Millisecond)
	}
	return None{}, nil
}, meta.Memory(150))
