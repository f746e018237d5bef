//go:build unix

package progress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
	"github.com/fiber-go/fiber/progress"
	"github.com/fiber-go/fiber/test/fibertest"
)

// step is a task.
type step struct {
	Say  string
	Gate string // a file that it waits for
	Fail bool
}

var run = fiber.Register("run", func(ctx context.Context, s step) (fibertest.None, error) {
	if s.Say != "" {
		fmt.Println(s.Say, os.Getenv(stdio.FollowerKey))
		fmt.Fprintln(os.Stderr, s.Say+" loudly")
	}
	if s.Fail {
		return fibertest.None{}, errors.New("no luck")
	}
	return fibertest.None{}, fibertest.Await(ctx, s.Gate)
})

// The program makes two calls, of which half is done at first. The second one ends when there is a file "two" in DIR, the first
// one when there is "one". When there is "say" it says something in each way.
var _ = fibertest.MainProgram("bars", func(ctx context.Context) error {
	gate := func(name string) string { return filepath.Join(os.Getenv("DIR"), name) }
	calls := []*fiber.Future[[]fibertest.None]{}
	for _, name := range []string{"one", "two"} {
		pool, err := fiber.NewPool(2)
		if err != nil {
			return err
		}
		if os.Getenv("LEAVE") == "" {
			defer pool.Terminate()
		}
		half := make([]step, 10)
		half[1].Say = "a worker speaks of " + name
		for i := range half[5:] {
			half[5+i].Gate = gate(name)
		}
		half[9].Fail = name == "two" && os.Getenv("FAIL") != ""
		calls = append(calls, fiber.MapAsync(ctx, pool, run, half, progress.Bar("call "+name), fiber.ChunkSize(1)))
	}
	if err := fibertest.Await(ctx, gate("say")); err != nil {
		return err
	}
	log.Print("log speaks")
	slog.Info("slog speaks")
	fmt.Fprint(progress.Writer(), "the program ")
	fmt.Fprintln(progress.Writer(), "speaks")
	if os.Getenv("LEAVE") != "" {
		return nil
	}
	for _, f := range slices.Backward(calls) {
		if _, err := f.Get(ctx); err != nil {
			return err
		}
	}
	return nil
})

// The program follows another run of this one, as fiber run -a does with a pod.
var _ = fibertest.Program("follower", func() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fibertest.ProgramKey+"=bars", stdio.FollowerKey+"="+stdio.Terminal)
	stderr, err := cmd.StderrPipe()
	cmd.Stdout = stdio.Stdout
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(err)
	}
	split := &output.Split{Own: stdio.Stderr, Lower: func(kind string, payload []byte) { stdio.Takers[kind](payload) }}
	io.Copy(split, stderr)
	split.End()
	err = cmd.Wait()
	stdio.Leave()
	if err != nil {
		os.Exit(cmd.ProcessState.ExitCode())
	}
})
