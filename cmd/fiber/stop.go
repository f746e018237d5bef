package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/runs"
)

type stopCommand struct {
	where
	Now   bool     `help:"Kill them at once, without asking them to end."`
	Names []string `arg:"" name:"name" help:"Programs: their names, as fiber ps shows them, or their own."`
}

func (c *stopCommand) Run() error {
	stops := make([]func(context.Context) (stopped string, err error), len(c.Names))
	var client *kube.Client
	for i, name := range c.Names {
		run, err := c.find(name)
		if err == nil && run == nil && client == nil {
			client, err = c.client(name)
		}
		switch {
		case err != nil:
			return err
		case run != nil:
			stops[i] = func(ctx context.Context) (string, error) { return run.Name(), c.end(ctx, run) }
		default:
			stops[i] = func(ctx context.Context) (string, error) { return c.remove(ctx, client, name) }
		}
	}
	return before(submit.Signals(), func(ctx context.Context) error {
		errs := make([]error, len(stops))
		var group sync.WaitGroup
		for i, stop := range stops {
			group.Go(func() {
				name, err := stop(ctx)
				if errs[i] = err; err == nil {
					fmt.Println("Stopped " + name)
				}
			})
		}
		group.Wait()
		return errors.Join(errs...)
	})
}

// remove ends a program on the cluster, and returns what it is called.
func (c *stopCommand) remove(ctx context.Context, client *kube.Client, name string) (string, error) {
	pod, err := submit.Lookup(ctx, client, name)
	if err != nil {
		return "", err
	}
	if job := kube.JobOf(pod); job != nil {
		name = job.Name
	} else {
		name = pod.Name
	}
	return name, submit.Stop(ctx, client, pod, c.Now)
}

// goneAgain is how often a program that ends is looked at.
const goneAgain = 50 * time.Millisecond

// end ends a run of this machine, and waits until its root is gone. What the root has started ends with it.
func (c *stopCommand) end(ctx context.Context, r *runs.Run) error {
	root, err := os.FindProcess(r.PID())
	if err != nil {
		return err
	}
	signal := os.Signal(syscall.SIGTERM)
	if c.Now {
		signal = os.Kill
	}
	if r.Ended() { // its number may be another process's
		return nil
	}
	if err := root.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", r.Name(), err)
	}
	for again := time.NewTicker(goneAgain); !r.Ended(); {
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
