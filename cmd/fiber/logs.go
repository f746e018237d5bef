package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/runs"
	"github.com/fiber-go/fiber/internal/stdio"
)

type logsCommand struct {
	where
	Follow bool   `short:"f" help:"Follow the output until the program ends."`
	Name   string `arg:"" help:"A program's name, as fiber ps shows it, or the program's own."`
}

func (c *logsCommand) Run() error {
	return c.about(c.Name, c.show, func(ctx context.Context, client *kube.Client, pod *corev1.Pod) error {
		return submit.Logs(ctx, client, pod, c.Follow, stdio.Stdout, stdio.Stderr, submit.NewReport(os.Stderr))
	})
}

// show shows the files that a run of this machine writes its output to.
func (c *logsCommand) show(ctx context.Context, r *runs.Run) error {
	var files []*os.File
	var to []io.Writer
	for fd, w := range []io.Writer{1: os.Stdout, 2: os.Stderr} {
		if w == nil {
			continue
		}
		f, err := r.Output(fd)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name(), err)
		}
		if f != nil {
			defer f.Close()
			files, to = append(files, f), append(to, w)
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("%s writes neither stdout nor stderr to a file: its output is where it was started, on a terminal for example", r.Name())
	}
	if len(files) == 2 && same(files[0], files[1]) {
		files = files[:1]
	}
	var group sync.WaitGroup
	errs := make([]error, len(files))
	for i, f := range files {
		group.Go(func() { errs[i] = c.copy(ctx, r, f, to[i]) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func same(a, b *os.File) bool {
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// copy shows what is in a file and, with -f, what comes until the run ends.
func (c *logsCommand) copy(ctx context.Context, r *runs.Run, f *os.File, to io.Writer) error {
	for again := time.NewTicker(goneAgain); ; {
		ended := !c.Follow || r.Ended()
		if _, err := io.Copy(to, f); err != nil || ended {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
